"""Warns of boxes that are hard to learn: too few, too small, or beyond the edge of their image."""

from collections import Counter

from redkiln.annotations import DetectionIndex
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.boxes.counting import split_images
from service.datasets.inspect.report import problem, show

FEW_BOXES = 10
"""Training boxes of a class below which a detector hardly learns it."""
MOST_IMBALANCE = 100
TINY_SIDE = 8
"""Pixels of the longer side below which the boxes of a class are tiny."""
TINY_SHARE = 0.5
CUT_SHARE = 0.05
SHOWN = 5


def check_boxes(index: DetectionIndex, *, num_cut: int) -> list[DatasetProblem]:
    """Return warnings about the boxes of an index.

    Args:
        index: Index of the set.
        num_cut: Boxes that reached beyond their image.
    """
    return [
        *_few(index),
        *_untrained(index),
        *_imbalance(index),
        *_tiny(index),
        *_cut(index, num_cut),
    ]


def _count(index: DetectionIndex, split: str) -> dict[str, int]:
    images = split_images(index)[split]
    counts = Counter(box.label for image in images for box in image.boxes if not box.crowd)
    return {name: counts[label] for label, name in enumerate(index.classes)}


def _few(index: DetectionIndex) -> list[DatasetProblem]:
    counts = _count(index, "train")
    few = sorted((num, name) for name, num in counts.items() if num < FEW_BOXES)
    if not few:
        return []
    message = (
        f"{_name_classes(len(few))} fewer than {FEW_BOXES} training boxes ({_list(few)}); add "
        "images of them, or merge or remove such classes"
    )
    return [problem("few_boxes", message)]


def _untrained(index: DetectionIndex) -> list[DatasetProblem]:
    trained, tested = _count(index, "train"), _count(index, "test")
    unknown = [(tested[name], name) for name in tested if tested[name] and not trained[name]]
    if not unknown:
        return []
    message = (
        f"{_name_classes(len(unknown))} boxes in the test split but none in training "
        f"({_list(unknown)}), so they are never found, which lowers the score; move some of their "
        "images to training"
    )
    return [problem("untrained_classes", message)]


def _imbalance(index: DetectionIndex) -> list[DatasetProblem]:
    counts = {name: num for name, num in _count(index, "train").items() if num}
    if len(counts) < 2:
        return []
    large, small = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
    if counts[large] <= MOST_IMBALANCE * counts[small]:
        return []
    message = (
        f"class {show(large)} has {counts[large]:,} training boxes and {show(small)} has "
        f"{counts[small]:,}; look at the score of each class, not only at their mean"
    )
    return [problem("imbalance", message)]


def _tiny(index: DetectionIndex) -> list[DatasetProblem]:
    totals: Counter[int] = Counter()
    tiny: Counter[int] = Counter()
    for images in index.splits.values():
        for box in (box for image in images for box in image.boxes):
            left, top, right, bottom = box.xyxy
            totals[box.label] += 1
            tiny[box.label] += max(right - left, bottom - top) < TINY_SIDE
    found = [(tiny[label], index.classes[label]) for label in sorted(totals)
             if tiny[label] > TINY_SHARE * totals[label]]  # fmt: skip
    if not found:
        return []
    message = (
        f"{_name_classes(len(found))} mostly boxes below {TINY_SIDE} pixels ({_list(found)}), "
        "which detectors hardly find; cut the images into parts, or train on larger images"
    )
    return [problem("tiny_boxes", message)]


def _cut(index: DetectionIndex, num_cut: int) -> list[DatasetProblem]:
    total = sum(len(im.boxes) for images in index.splits.values() for im in images)
    if num_cut <= CUT_SHARE * total:
        return []
    message = (
        f"{num_cut:,} of {total:,} boxes reached beyond their image and were cut at its edge; "
        "check in the samples that the boxes are where the objects are"
    )
    return [problem("cut_boxes", message)]


def _name_classes(num: int) -> str:
    return "1 class has" if num == 1 else f"{num} classes have"


def _list(found: list[tuple[int, str]]) -> str:
    named = ", ".join(f"{show(name)}: {num}" for num, name in found[:SHOWN])
    return f"{named}, ..." if len(found) > SHOWN else named
