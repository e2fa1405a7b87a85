"""Finds the files that the cells of a `labels.csv` name."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_MOST_NAMED = 3


class FileNames:
    """The files of a set.

    A cell names a path below the folder of `labels.csv`, or a file name that occurs only once. Case
    counts only if files differ in nothing else, because Windows ignores it. An image's ending may
    be missing if no other image has the rest of the name.

    Args:
        paths: Paths below the folder of `labels.csv`, with POSIX separators.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        names = [path.rpartition("/")[2] for path in paths]
        times = Counter(names)
        self._by_key = {path: place for place, path in enumerate(paths)}
        self._by_key |= {name: place for place, name in enumerate(names) if times[name] == 1}
        folded = Counter(key.casefold() for key in self._by_key)
        self._by_folded = {
            key.casefold(): place
            for key, place in self._by_key.items()
            if folded[key.casefold()] == 1
        }
        self._by_stem: dict[str, list[int]] = defaultdict(list)
        for place, path in enumerate(map(PurePosixPath, paths)):
            if is_image_name(path.name):
                stem = path.with_suffix("")
                for key in {stem.as_posix().casefold(), stem.name.casefold()}:
                    self._by_stem[key].append(place)

    def find(self, cell: str) -> int | None:
        """Return the position of the file that a cell names; None if there is not exactly one."""
        place = self.find_whole(cell)
        found = self._by_stem.get(_tidy(cell).casefold(), [])
        return found[0] if place is None and len(found) == 1 else place

    def find_whole(self, cell: str) -> int | None:
        """Return the position of the file that a cell names with its ending."""
        path = _tidy(cell)
        return self._by_key.get(path, self._by_folded.get(path.casefold()))

    def explain_missing(self, cell: str) -> str:
        """Return why a cell names no file."""
        found = [self._paths[place] for place in self._by_stem.get(_tidy(cell).casefold(), [])]
        if not found:
            return f"there is no file {cell}"
        more = ", ..." if found[_MOST_NAMED:] else ""
        return (
            f"{cell} may be {len(found)} images ({', '.join(found[:_MOST_NAMED])}{more}); write "
            "its path with the ending"
        )


def is_image_name(name: str) -> bool:
    """Return whether a file is an image by its name."""
    return name.casefold().endswith(_IMAGES)


def _tidy(cell: str) -> str:
    return cell.strip().replace("\\", "/").removeprefix("./")
