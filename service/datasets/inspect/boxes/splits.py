"""Finds the split that the name of a file or folder says, such as `train2017` or `valid`."""

import re
from collections.abc import Sequence

from service.datasets.inspect.boxes.written import WrittenImage
from service.datasets.inspect.layout import SPLITS, Split
from service.datasets.inspect.listing import Parts

_WORDS = "|".join(sorted(SPLITS, key=len, reverse=True))
_FOLDER = re.compile(rf"({_WORDS})(?:[-_ ]?(?:\d+|set|images|split))?", re.I)
_FILE = re.compile(rf"(?:^|.*[^a-z])({_WORDS})(?:[^a-z].*)?", re.I)


def find_split(parts: Parts) -> Split | None:
    """Return the split of a file by its folders, the nearest one first."""
    for part in reversed(parts[:-1]):
        if match := _FOLDER.fullmatch(part):
            return SPLITS[match[1].casefold()]
    return None


def find_split_of_name(parts: Parts) -> Split | None:
    """Return the split by the name of a file, such as `instances_val2017.json`, or its folders."""
    stem = parts[-1].partition(".")[0]
    match = _FILE.fullmatch(stem)
    return SPLITS[match[1].casefold()] if match else find_split(parts)


def settle_splits(images: Sequence[WrittenImage]) -> tuple[list[WrittenImage], list[WrittenImage]]:
    """Return the images that are used, each with a split, and those that are in no split.

    Without a training split, the names are not those of splits, and all images are for training.
    """
    if not any(image.split == "train" for image in images):
        for image in images:
            image.split = "train"
    used = [image for image in images if image.split is not None]
    return used, [image for image in images if image.split is None]
