"""Decides from annotations and images whether a data set with boxes is valid."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.datasets import ImageFile, rank_within_classes
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.boxes.counting import count_objects, split_images
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.placing import Placing
from service.datasets.inspect.boxes.written import Written, WrittenImage
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import describe_skipping, may_skip
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.objects import MaskPlacing
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.report import (
    GREY_MODES,
    MAX_LISTED,
    MAX_SIZES,
    InspectionReport,
    note_skipped,
    problem,
    show,
)
from service.datasets.inspect.verdict import (
    FATAL,
    join_splits,
    no_test_split,
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
    boxes: list[Box]


@dataclass
class Found:
    """The images of a data set and what was noticed about them."""

    images: list[Placed] = field(default_factory=list)
    fatal: list[DatasetProblem] = field(default_factory=list)
    size_bytes: int = 0


def judge(
    files: Sequence[Entry],
    written: Written,
    used: Sequence[WrittenImage],
    probes: Sequence[Probe],
    *,
    has_masks: bool = False,
    seed: int,
) -> tuple[DetectionIndex | None, InspectionReport, Placing]:
    """Return the index, if the data set is valid, the report, and how the boxes were placed.

    Args:
        files: All files that were listed.
        written: The annotations.
        used: Images of the splits.
        probes: One probe for each of `used`.
        has_masks: Whether each object has a mask, for instance segmentation.
        seed: Random seed of the order of the images.
    """
    labels = {name: label for label, name in enumerate(written.classes)}
    kind = MaskPlacing if has_masks else Placing
    placing = kind(labels, written.bad_boxes, written.is_relative)
    found = _place_all(files, written, used, probes, placing)
    report = _report(written, found, placing)
    report.errors = [*found.fatal, *_find_errors(written, used, found)][: MAX_LISTED + 10]
    if report.errors:
        return None, report, placing
    index = _build_index(written, found, seed=seed)
    if has_masks:
        index.task = "instance-segmentation"
    if not index.splits["test"]:
        report.errors = [no_test_split("a test split")]
        return None, report, placing
    index.notes = [*report.notes, *index.notes]
    report.notes = index.notes
    report.objects = count_objects(index)
    report.counts = {split: {"images": len(part)} for split, part in split_images(index).items()}
    return index, report, placing


def _place_all(
    files: Sequence[Entry],
    written: Written,
    used: Sequence[WrittenImage],
    probes: Sequence[Probe],
    placing: Placing,
) -> Found:
    found = Found()
    for image, probe in zip(used, probes, strict=True):
        entry = files[image.position]
        if probe.facts is None:
            assert probe.fault is not None
            code, message = probe.fault
            if code in FATAL:
                found.fatal.append(problem(code, message, entry.path))
            else:
                written.bad_images.add(code, message, entry.path)
            continue
        boxes = placing.place(image, probe.facts)
        if isinstance(boxes, str):
            written.bad_images.add("wrong_image_size", f"{show(entry.path)}: {boxes}", image.place)
        elif len(boxes) > written.limits.max_image_boxes:
            most = written.limits.max_image_boxes
            message = f"has {len(boxes):,} boxes, but at most {most:,} are allowed; cut the image"
            written.bad_images.add("too_many_boxes", message, entry.path)
        else:
            split: Split = image.split or "train"
            found.images.append(Placed(entry, split, probe.facts, probe.sha256, boxes))
            found.size_bytes += probe.size_bytes
    found.images.sort(key=lambda placed: placed.entry.parts)
    return found


def _report(written: Written, found: Found, placing: Placing) -> InspectionReport:
    modes = Counter(image.facts.mode for image in found.images)
    return InspectionReport(
        classes=written.classes,
        image_sizes=_count_sizes(found.images),
        image_modes=dict(modes.most_common()),
        notes=[*written.notes, *_note_boxes(written, placing)],
        num_skipped=written.bad_images.num + written.bad_boxes.num,
        skipped=[*written.bad_images.listed, *written.bad_boxes.listed][:MAX_LISTED],
        size_bytes=found.size_bytes,
    )


def _note_boxes(written: Written, placing: Placing) -> list[str]:
    notes = [
        *note_skipped(written.bad_images.listed, "images", num=written.bad_images.num),
        *note_skipped(written.bad_boxes.listed, "boxes", num=written.bad_boxes.num),
    ]
    if placing.cut:
        num, first = len(placing.cut), show(placing.cut[0])
        notes.append(f"{num} boxes reached beyond their image and were cut, such as {first}")
    if placing.num_repeated:
        notes.append(f"{placing.num_repeated} boxes were listed twice; each counts once")
    if placing.num_turned:
        notes.append(
            f"EXIF rotates {placing.num_turned} images; their boxes matched the images before the "
            "rotation, so the boxes were rotated, too"
        )
    return notes


def _count_sizes(images: Sequence[Placed]) -> dict[str, int]:
    """Return the number of images by displayed size, the most frequent sizes one by one."""
    sizes = Counter("{}x{}".format(*displayed_size(image.facts)) for image in images)
    listed = dict(sizes.most_common(MAX_SIZES))
    rest = len(images) - sum(listed.values())
    return {**listed, "other": rest} if rest else listed


def _find_errors(
    written: Written, used: Sequence[WrittenImage], found: Found
) -> list[DatasetProblem]:
    limits = written.limits
    num_images = len(found.images) + written.bad_images.num
    errors = []
    if not may_skip(written.bad_images.num, total=num_images, limits=limits):
        bad = written.bad_images
        message = f"{bad.num} of {num_images} images cannot be used, {describe_skipping(limits)}"
        errors += [problem("too_many_bad_images", message), *bad.listed]
    if not may_skip(written.bad_boxes.num, total=written.num_boxes, limits=limits):
        bad, total = written.bad_boxes, written.num_boxes
        message = f"{bad.num} of {total} boxes cannot be used, {describe_skipping(limits)}"
        errors += [problem("too_many_bad_boxes", message), *bad.listed]
    if len(written.classes) > limits.max_classes:
        most = limits.max_classes
        message = f"there are {len(written.classes)} classes, but at most {most} are allowed"
        errors.append(problem("too_many_classes", message))
    trained = any(box for im in found.images if im.split == "train" for box in im.boxes)
    if not errors and not trained:
        message = (
            f"none of the {sum(image.split == 'train' for image in used)} training images has a "
            "box that can be used; a detector needs some to learn from"
        )
        errors.append(problem("no_boxes", message))
    return errors


def _build_index(written: Written, found: Found, *, seed: int) -> DetectionIndex:
    sizes = Counter(displayed_size(image.facts) for image in found.images)
    is_grey = all(image.facts.mode in GREY_MODES for image in found.images)
    has_test = any(image.split == "test" for image in found.images)
    parts = _rank(found.images, seed=seed)
    splits = join_splits(parts, has_test=has_test)
    num_validation = len(parts["validation"])
    channels: Literal[1, 3] = 1 if is_grey else 3
    return DetectionIndex(
        annotation_format=written.format,
        classes=written.classes,
        splits=splits,
        image_size=max(sizes, key=lambda size: (sizes[size], size)),
        mixed_sizes=len(sizes) > 1,
        channels=channels,
        seed=seed,
        num_validation=num_validation,
        held_out_test=not has_test,
        notes=[
            *note_validation(num_validation),
            *([] if has_test else [note_held_out(splits)]),
            *note_sizes(len(sizes)),
        ],
    )


def _rank(images: Sequence[Placed], *, seed: int) -> dict[Split, list[AnnotatedImage]]:
    """Return the images of each split with their rank among those of the same class."""
    num_with = Counter(label for image in images for label in _labels(image))
    splits: dict[Split, list[AnnotatedImage]] = {}
    for split in get_args(Split):
        found = [_describe(image, num_with) for image in images if image.split == split]
        pool_lone(found)
        ranks = rank_within_classes([image.stratum for image in found], seed=seed)
        for image, rank in zip(found, ranks, strict=True):
            image.rank = rank
        splits[split] = found
    return splits


def _labels(image: Placed) -> set[int]:
    return {box.label for box in image.boxes if not box.crowd}


def _describe(image: Placed, num_with: Mapping[int, int]) -> AnnotatedImage:
    width, height = displayed_size(image.facts)
    return AnnotatedImage(
        path=image.entry.path,
        sha256=image.sha256,
        rank=0,
        width=width,
        height=height,
        label=choose_class(_labels(image), num_with),
        boxes=image.boxes,
    )


def pool_lone(images: Sequence[ImageFile]) -> None:
    """Put images that are alone in their group into the group without a class.

    A group of one cannot be divided, so a small set might otherwise have no test image.
    """
    sizes = Counter(image.stratum for image in images)
    for image in images:
        if sizes[image.stratum] == 1:
            image.label = None


def choose_class(labels: set[int], num_with: Mapping[int, int]) -> int | None:
    """Return the class by which an image is split: its rarest one that is not too rare to divide.

    Args:
        labels: Classes of the image's boxes.
        num_with: Images with each class.
    """
    usual = [label for label in labels if num_with[label] >= USUAL_IMAGES]
    if usual:
        return min(usual, key=lambda label: (num_with[label], label))
    return max(labels, key=lambda label: (num_with[label], -label), default=None)
