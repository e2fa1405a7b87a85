"""Recognises pairs of folders: images, and masks with the same names."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from redkiln.annotations import MASK_FOLDER, MASK_NAMES
from service.datasets.inspect.boxes.files import ImageFiles, stem_of, suffix_of
from service.datasets.inspect.listing import Entry

IMAGES = frozenset({"images", "image", "imgs", "img"})
"""Folders in which images lie next to their masks."""


@dataclass
class MaskFiles:
    """The files of a data set with masks as pictures.

    Attributes:
        images: The images, without the masks.
        masks: The masks, sorted by path.
        names: File with the names of the classes, or None.
    """

    images: ImageFiles
    masks: list[Entry] = field(default_factory=list)
    names: Entry | None = None


def find_masks(files: Sequence[Entry], *, is_asked: bool = False) -> MaskFiles | None:
    """Return the images and their masks; None if no folder `masks` has a PNG for an image.

    Args:
        files: The files of the data set.
        is_asked: Whether the task was named. If not, folders such as `masks` and `no_masks` are
            classes, unless there are names of classes or a folder `images`.
    """
    masks = [entry for entry in files if _is_mask(entry)]
    if not masks:
        return None
    images = ImageFiles(files, leave_out=_is_in_masks)
    if not any(images.has_stem(stem_of(entry)) for entry in masks):
        return None
    names = [entry for entry in files if entry.parts[-1].casefold() == MASK_NAMES]
    in_folder = any(part.casefold() in IMAGES for one in files for part in one.parts[:-1])
    if not (names or is_asked or in_folder):
        return None
    return MaskFiles(
        images,
        sorted(masks, key=lambda entry: entry.parts),
        min(names, key=lambda entry: (len(entry.parts), entry.parts), default=None),
    )


def _is_mask(entry: Entry) -> bool:
    return suffix_of(entry) == ".png" and _is_in_masks(entry)


def _is_in_masks(entry: Entry) -> bool:
    return any(part.casefold() == MASK_FOLDER for part in entry.parts[:-1])
