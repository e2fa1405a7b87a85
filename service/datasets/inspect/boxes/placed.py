"""What judging boxes and judging masks share: usable images, their report, and their splits."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from redkiln.datasets import ImageFile, rank_within_classes
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.written import Written
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Unusable, find_excess
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.quality.images import group_exactly
from service.datasets.inspect.report import (
    GREY_MODES,
    MAX_LISTED,
    MAX_SIZES,
    OTHER_SIZES,
    InspectionReport,
    note_skipped,
    problem,
)
from service.datasets.inspect.verdict import (
    FATAL,
    join_splits,
    note_held_out,
    note_sizes,
    note_validation,
)

USUAL_IMAGES = 10
"""Images that a class should be in to decide the split of its images: fewer cannot be divided."""


@dataclass(frozen=True)
class Placed:
    """An image that can be used."""

    entry: Entry
    split: Split
    facts: ImageFacts
    sha256: str | None


OfPlaced = TypeVar("OfPlaced", bound=Placed)
OfFile = TypeVar("OfFile", bound=ImageFile)


def note_fault(
    probe: Probe, entry: Entry, written: Written, *, fatal: list[DatasetProblem]
) -> None:
    """Record what is wrong with an image that cannot be used."""
    assert probe.fault is not None
    code, message = probe.fault
    if code in FATAL:
        fatal.append(problem(code, message, entry.path))
    else:
        written.bad_images.add(code, message, entry.path)


def describe_images(
    written: Written, images: Sequence[Placed], *, nouns: str, notes: list[str], size_bytes: int
) -> InspectionReport:
    """Return the report on images and their annotations.

    Args:
        written: The annotations.
        images: The images that can be used.
        nouns: Name of the objects, `boxes` or `regions`.
        notes: Further notes.
        size_bytes: Size of the images' files.
    """
    sizes = Counter("{}x{}".format(*displayed_size(image.facts)) for image in images)
    listed = dict(sizes.most_common(MAX_SIZES))
    rest = len(images) - sum(listed.values())
    return InspectionReport(
        classes=written.classes,
        image_sizes={**listed, OTHER_SIZES: rest} if rest else listed,
        image_modes=dict(Counter(image.facts.mode for image in images).most_common()),
        notes=[
            *written.notes,
            *note_skipped(written.bad_images.listed, "images", num=written.bad_images.num),
            *note_skipped(written.bad_boxes.listed, nouns, num=written.bad_boxes.num),
            *notes,
        ],
        num_skipped=written.bad_images.num + written.bad_boxes.num,
        skipped=[*written.bad_images.listed, *written.bad_boxes.listed][:MAX_LISTED],
        size_bytes=size_bytes,
    )


def find_too_many_bad(written: Written, *, num_used: int, nouns: str) -> list[DatasetProblem]:
    """Return the problem that too many images or objects cannot be used, if so.

    Args:
        written: The annotations.
        num_used: Images that can be used.
        nouns: Name of the objects.
    """
    images, boxes = written.bad_images, written.bad_boxes
    kinds = [
        Unusable(images.num, num_used + images.num, "images cannot be used"),
        Unusable(boxes.num, written.num_boxes, f"{nouns} cannot be used"),
    ]
    message = find_excess(kinds, written.limits)
    if message is None:
        return []
    code = f"too_many_bad_{'images' if images.num else nouns}"
    return [problem(code, message), *images.listed, *boxes.listed]


def describe_splits(
    images: Sequence[OfPlaced],
    *,
    labels_of: Callable[[OfPlaced], set[int]],
    write: Callable[[OfPlaced], OfFile],
    seed: int,
) -> dict[str, Any]:
    """Return the fields of an index that follow from its images: their splits and properties.

    Args:
        images: The images that can be used.
        labels_of: Returns the classes that decide in which split an image is.
        write: Returns an image as the index has it; its label and its rank are set here.
        seed: Random seed of the order of the images.
    """
    sizes = Counter(displayed_size(image.facts) for image in images)
    has_test = any(image.split == "test" for image in images)
    num_with = Counter(label for image in images for label in labels_of(image))
    parts: dict[Split, list[OfFile]] = {}
    for split in get_args(Split):
        parts[split] = []
        for image in images:
            if image.split == split:
                file = write(image)
                file.label = choose_class(labels_of(image), num_with)
                parts[split].append(file)
        _rank(parts[split], seed=seed)
    copies = group_exactly([image.facts.look for image in images if image.split == "train"])
    splits = join_splits(parts, copies, has_test=has_test)
    num_validation = len(parts["validation"])
    return {
        "splits": splits,
        "image_size": max(sizes, key=lambda size: (sizes[size], size)),
        "mixed_sizes": len(sizes) > 1,
        "channels": 1 if all(image.facts.mode in GREY_MODES for image in images) else 3,
        "seed": seed,
        "num_validation": num_validation,
        "held_out_test": not has_test,
        "notes": [
            *note_validation(num_validation),
            *([] if has_test else [note_held_out(splits)]),
            *note_sizes(len(sizes)),
        ],
    }


def _rank(images: Sequence[ImageFile], *, seed: int) -> None:
    """Rank images among those of the same class; a class with one image joins those without one.

    A group of one cannot be divided, so a small set might otherwise have no test image.
    """
    sizes = Counter(image.stratum for image in images)
    for image in images:
        if sizes[image.stratum] == 1:
            image.label = None
    ranks = rank_within_classes([image.stratum for image in images], seed=seed)
    for image, rank in zip(images, ranks, strict=True):
        image.rank = rank


def choose_class(labels: set[int], num_with: Mapping[int, int]) -> int | None:
    """Return the class by which an image is split: its rarest one that is not too rare to divide.

    Args:
        labels: Classes of the image's objects.
        num_with: Images with each class.
    """
    usual = [label for label in labels if num_with[label] >= USUAL_IMAGES]
    if usual:
        return min(usual, key=lambda label: (num_with[label], label))
    return max(labels, key=lambda label: (num_with[label], -label), default=None)
