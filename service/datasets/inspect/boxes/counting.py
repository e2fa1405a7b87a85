"""Counts the boxes of an index by class and size."""

from collections import Counter
from collections.abc import Sequence

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.views.dataset import ObjectCounts

SMALL = 32 * 32
LARGE = 96 * 96
"""Pixels of a box from which it is no longer small, and from which it is large. Source: COCO."""


def split_images(index: DetectionIndex) -> dict[str, list[AnnotatedImage]]:
    """Return the images of each split; the validation split only if the set has its own."""
    first = len(index.splits["train"]) - index.num_validation
    parts = {"train": index.splits["train"][:first]}
    if index.num_validation:
        parts["validation"] = index.splits["train"][first:]
    return {**parts, "test": index.splits["test"]}


def count_objects(index: DetectionIndex) -> ObjectCounts:
    """Return the boxes of an index by class and size."""
    parts = split_images(index)
    images = [image for part in parts.values() for image in part]
    boxes = [box for image in images for box in image.boxes if not box.crowd]
    return ObjectCounts(
        annotation_format=index.annotation_format,
        boxes={split: _count_classes(index, part) for split, part in parts.items()},
        sizes=_count_sizes(index, boxes),
        num_crowds=sum(box.crowd for image in images for box in image.boxes),
        images_without={split: sum(not im.boxes for im in part) for split, part in parts.items()},
        most_in_image=max((len(image.boxes) for image in images), default=0),
    )


def _count_classes(index: DetectionIndex, images: Sequence[AnnotatedImage]) -> dict[str, int]:
    counts = Counter(box.label for im in images for box in im.boxes if not box.crowd)
    return {name: counts[label] for label, name in enumerate(index.classes) if counts[label]}


def _count_sizes(index: DetectionIndex, boxes: Sequence[Box]) -> dict[str, dict[str, int]]:
    counts = Counter((box.label, name_size(box)) for box in boxes)
    return {
        name: {size: counts[label, size] for size in ("small", "medium", "large")}
        for label, name in enumerate(index.classes)
    }


def name_size(box: Box) -> str:
    """Return `small`, `medium` or `large`, as COCO defines them."""
    left, top, right, bottom = box.xyxy
    area = (right - left) * (bottom - top)
    return "small" if area < SMALL else "medium" if area < LARGE else "large"
