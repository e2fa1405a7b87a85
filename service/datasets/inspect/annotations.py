"""Recognises sets of images whose labels are boxes in files, such as YOLO's, COCO's and VOC's."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse

_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
_COCO = re.compile(r"(instances|person_keypoints|panoptic|stuff)_.*\.json|.*\.coco\.json", re.I)


def refuse_boxes(entries: Sequence[Entry]) -> None:
    """Refuse a set for object detection, which would be taken for strange classes.

    Raises:
        Refused: The names of the files are those of such a set.
    """
    paths = [PurePosixPath(*entry.parts) for entry in entries]
    images = {path.stem for path in paths if path.suffix.lower() in _IMAGES}
    if not images:
        return
    for path in paths:
        if kind := _find_kind(path, images):
            message = (
                f"holds the boxes of a {kind} set for object detection, but Redkiln trains "
                "classifiers; put each image, or the part inside each box, into a folder of its "
                "class, or train a detector with your own program (redkiln run)"
            )
            raise refuse("object_detection", message, str(path))


def _find_kind(path: PurePosixPath, images: set[str]) -> str | None:
    """Return the kind of set that has such a file, if it holds boxes."""
    folders = {part.casefold() for part in path.parts[:-1]}
    if path.suffix.lower() == ".txt" and path.stem in images and "labels" in folders:
        return "YOLO"
    if _COCO.fullmatch(path.name):
        return "COCO"
    if path.suffix.lower() == ".xml" and path.stem in images:
        return "Pascal VOC"
    return None
