"""Decides from annotations and images whether a data set with boxes is valid."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.boxes.counting import count_objects, split_images
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.placed import (
    Placed,
    describe_images,
    describe_splits,
    find_too_many_bad,
    note_fault,
)
from service.datasets.inspect.boxes.placing import Placing
from service.datasets.inspect.boxes.written import Written, WrittenImage
from service.datasets.inspect.layout import Split
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.objects import MaskPlacing
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.report import MAX_LISTED, InspectionReport, problem, show
from service.datasets.inspect.verdict import no_test_split


@dataclass(frozen=True)
class PlacedBoxes(Placed):
    """An image that can be used, with its boxes."""

    boxes: list[Box]


@dataclass
class Found:
    """The images of a data set and what was noticed about them."""

    images: list[PlacedBoxes] = field(default_factory=list)
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
    report = describe_images(
        written,
        found.images,
        nouns="boxes",
        notes=_note_boxes(placing),
        size_bytes=found.size_bytes,
    )
    report.errors = [*found.fatal, *_find_errors(written, used, found)][: MAX_LISTED + 10]
    if report.errors:
        return None, report, placing
    index = DetectionIndex(
        annotation_format=written.format,
        classes=written.classes,
        **describe_splits(found.images, labels_of=_labels, write=_describe, seed=seed),
    )
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
            note_fault(probe, entry, written, fatal=found.fatal)
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
            found.images.append(PlacedBoxes(entry, split, probe.facts, probe.sha256, boxes))
            found.size_bytes += probe.size_bytes
    found.images.sort(key=lambda placed: placed.entry.parts)
    return found


def _note_boxes(placing: Placing) -> list[str]:
    notes = []
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


def _find_errors(
    written: Written, used: Sequence[WrittenImage], found: Found
) -> list[DatasetProblem]:
    limits = written.limits
    errors = find_too_many_bad(written, num_used=len(found.images), nouns="boxes")
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


def _labels(image: PlacedBoxes) -> set[int]:
    return {box.label for box in image.boxes if not box.crowd}


def _describe(image: PlacedBoxes) -> AnnotatedImage:
    width, height = displayed_size(image.facts)
    return AnnotatedImage(
        path=image.entry.path,
        sha256=image.sha256,
        rank=0,
        width=width,
        height=height,
        boxes=image.boxes,
    )
