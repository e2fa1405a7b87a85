"""The files of a data set by what annotations need to find: images by path, name and stem."""

from collections.abc import Callable, Sequence

from service.datasets.inspect.boxes.splits import find_split
from service.datasets.inspect.layout import Split
from service.datasets.inspect.listing import Entry, Parts

IMAGES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
_ABOVE = 2
"""Folders above a file of annotations in which its images are looked for."""


def suffix_of(entry: Entry) -> str:
    """Return the ending of a file's name in lower case, with its point."""
    name = entry.parts[-1]
    return name[_find_suffix(name) :].lower()


def stem_of(entry: Entry) -> str:
    """Return a file's name without its ending."""
    name = entry.parts[-1]
    return name[: _find_suffix(name)]


def _find_suffix(name: str) -> int:
    """Return where a name's ending begins, as `PurePosixPath` does but quickly."""
    found = name.rfind(".")
    return found if 0 < found < len(name) - 1 else len(name)


class ImageFiles:
    """The image files of a data set.

    Args:
        files: All files.
        leave_out: Whether a file does not count as an image.

    Attributes:
        positions: Positions of the images in `files`, sorted by path.
    """

    def __init__(
        self,
        files: Sequence[Entry],
        *,
        leave_out: Callable[[Entry], bool] = lambda _entry: False,
    ) -> None:
        self.files = files
        found = (
            place
            for place, entry in enumerate(files)
            if suffix_of(entry) in IMAGES and not leave_out(entry)
        )
        self.positions = sorted(found, key=lambda place: files[place].parts)
        self._by_parts = {files[place].parts: place for place in self.positions}
        self._by_name: dict[str, list[int]] = {}
        self._by_stem: dict[str, list[int]] = {}
        for place in self.positions:
            self._by_name.setdefault(files[place].parts[-1], []).append(place)
            self._by_stem.setdefault(stem_of(files[place]), []).append(place)

    @property
    def folders(self) -> set[Parts]:
        """All folders that have images, or have folders that do; `()` is the data set itself."""
        parents = {self.files[place].parts[:-1] for place in self.positions}
        return {parts[:end] for parts in parents for end in range(len(parts) + 1)}

    def has_only(self, stem: str) -> bool:
        """Return whether exactly one image has this name, without its ending."""
        return len(self._by_stem.get(stem, ())) == 1

    def has_stem(self, stem: str) -> bool:
        """Return whether an image has this name, without its ending."""
        return stem in self._by_stem

    def find(self, written: str, *, folder: Parts, split: Split | None) -> int | None:
        """Return the position of the image that annotations name; None if it is not clear.

        It is looked for next to the annotations, then in the folders above, then by its name.

        Args:
            written: Path as the annotations have it.
            folder: Folder of the annotations.
            split: Split of the annotations, which decides between images of the same name.
        """
        parts = tuple(
            part for part in written.replace("\\", "/").split("/") if part not in ("", ".", "..")
        )
        if not parts:
            return None
        for depth in range(min(len(folder), _ABOVE) + 1):
            place = self._by_parts.get((*folder[: len(folder) - depth], *parts))
            if place is not None:
                return place
        named = self._by_name.get(parts[-1], [])
        ending = [place for place in named if self.files[place].parts[-len(parts) :] == parts]
        return self._choose(ending or named, folder=folder, split=split)

    def find_stem(self, stem: str, *, folder: Parts, split: Split | None) -> int | None:
        """Return the position of the image with this name, whatever its ending; None if unclear."""
        return self._choose(self._by_stem.get(stem, []), folder=folder, split=split)

    def _choose(self, places: list[int], *, folder: Parts, split: Split | None) -> int | None:
        """Return the only place; of several the one in the same folder or a near one, or split."""
        if len(places) > 1:
            for depth in range(min(len(folder), _ABOVE) + 1):
                near = folder[: len(folder) - depth]
                below = [p for p in places if self.files[p].parts[: len(near)] == near]
                if len(below) == 1:
                    return below[0]
            places = [p for p in places if find_split(self.files[p].parts) == split]
        return places[0] if len(places) == 1 else None
