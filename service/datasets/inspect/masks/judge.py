"""Decides from masks and images whether a data set for segmentation is valid."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from redkiln.annotations import (
    IGNORED,
    MOST_MASK_CLASSES,
    MaskedImage,
    MaskFormat,
    SegmentationIndex,
)
from redkiln.datasets import rank_within_classes
from redkiln.predict.masks.coding import pack_mask
from redkiln.views.dataset import DatasetProblem, MaskCounts
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.judge import choose_class, pool_lone
from service.datasets.inspect.boxes.text import BadText
from service.datasets.inspect.boxes.written import Written, WrittenImage
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import GIB, describe_skipping, may_skip
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.reading import Masks, count_labels
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.report import (
    GREY_MODES,
    MAX_LISTED,
    MAX_SIZES,
    InspectionReport,
    note_skipped,
    problem,
    refuse,
)
from service.datasets.inspect.verdict import (
    FATAL,
    join_splits,
    no_test_split,
    note_held_out,
    note_sizes,
    note_validation,
)

MOST_BYTES = 2 * GIB
"""Size of all packed masks together."""


@dataclass(frozen=True)
class Placed:
    """An image that can be used, with the pixels of each label of its mask."""

    entry: Entry
    split: Split
    facts: ImageFacts
    sha256: str | None
    mask: str
    mask_size: tuple[int, int]
    pixels: dict[int, int]


@dataclass
class Found:
    """The images of a data set and what was noticed about them."""

    images: list[Placed] = field(default_factory=list)
    fatal: list[DatasetProblem] = field(default_factory=list)
    size_bytes: int = 0
    packed_bytes: int = 0


def judge(
    files: Sequence[Entry],
    written: Written,
    used: Sequence[WrittenImage],
    probes: Sequence[Probe],
    masks: Masks,
    *,
    seed: int,
) -> tuple[SegmentationIndex | None, InspectionReport]:
    """Return the index, if the data set is valid, and the report.

    Args:
        files: All files that were listed.
        written: The annotations.
        used: Images of the splits.
        probes: One probe for each of `used`.
        masks: Makes the mask of an image.
        seed: Random seed of the order of the images.

    Raises:
        Refused: The masks are too large for an index.
    """
    found = _place_all(files, written, used, probes, masks)
    report = _report(written, found, masks)
    report.errors = [*found.fatal, *_find_errors(written, found)][: MAX_LISTED + 10]
    if report.errors:
        return None, report
    form: MaskFormat = "png"
    if masks.pictures is None:
        form = "coco" if written.format == "coco" else "labelme"
    index = _build_index(written.classes, found, form, seed=seed)
    if not index.splits["test"]:
        report.errors = [no_test_split("a test split")]
        return None, report
    index.notes = report.notes = [*report.notes, *index.notes]
    report.masks = _count_masks(index, found)
    report.counts = {split: {"images": len(part)} for split, part in split_masks(index).items()}
    return index, report


def split_masks(index: SegmentationIndex) -> dict[str, list[MaskedImage]]:
    """Return the images of each split; the validation split only if the set has its own."""
    first = len(index.splits["train"]) - index.num_validation
    parts = {"train": index.splits["train"][:first]}
    if index.num_validation:
        parts["validation"] = index.splits["train"][first:]
    return {**parts, "test": index.splits["test"]}


def _place_all(
    files: Sequence[Entry],
    written: Written,
    used: Sequence[WrittenImage],
    probes: Sequence[Probe],
    masks: Masks,
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
        try:
            mask = masks.make(image, probe.facts)
        except BadText as bad:
            written.bad_images.add("bad_mask", bad.message, bad.place)
            continue
        packed, size = pack_mask(mask), (mask.shape[1], mask.shape[0])
        found.packed_bytes += len(packed)
        if found.packed_bytes > MOST_BYTES:
            message = "the masks together are too large; use fewer or smaller images"
            raise refuse("too_large", message)
        split: Split = image.split or "train"
        counts = dict(count_labels(mask))
        placed = Placed(entry, split, probe.facts, probe.sha256, packed, size, counts)
        found.images.append(placed)
        found.size_bytes += probe.size_bytes
    found.images.sort(key=lambda placed: placed.entry.parts)
    return found


def _report(written: Written, found: Found, masks: Masks) -> InspectionReport:
    sizes = Counter("{}x{}".format(*displayed_size(image.facts)) for image in found.images)
    listed = dict(sizes.most_common(MAX_SIZES))
    rest = len(found.images) - sum(listed.values())
    modes = Counter(image.facts.mode for image in found.images)
    notes = [
        *written.notes,
        *note_skipped(written.bad_images.listed, "images", num=written.bad_images.num),
        *note_skipped(written.bad_boxes.listed, "regions", num=written.bad_boxes.num),
    ]
    if masks.num_turned:
        notes.append(
            f"the masks of {masks.num_turned} images were written for the stored picture, and were "
            "turned as EXIF turns it"
        )
    return InspectionReport(
        classes=written.classes,
        image_sizes={**listed, "other": rest} if rest else listed,
        image_modes=dict(modes.most_common()),
        notes=notes,
        num_skipped=written.bad_images.num + written.bad_boxes.num,
        skipped=[*written.bad_images.listed, *written.bad_boxes.listed][:MAX_LISTED],
        size_bytes=found.size_bytes,
    )


def _find_errors(written: Written, found: Found) -> list[DatasetProblem]:
    limits, errors = written.limits, []
    num_images = len(found.images) + written.bad_images.num
    for faults, total, what in (
        (written.bad_images, num_images, "images"),
        (written.bad_boxes, written.num_boxes, "regions"),
    ):
        if not may_skip(faults.num, total=total, limits=limits):
            message = f"{faults.num} of {total} {what} cannot be used, {describe_skipping(limits)}"
            errors += [problem(f"too_many_bad_{what}", message), *faults.listed]
    if not 2 <= len(written.classes) <= MOST_MASK_CLASSES:
        message = (
            f"there are {len(written.classes)} classes, with the background; from 2 to "
            f"{MOST_MASK_CLASSES} are allowed"
        )
        errors.append(problem("number_of_classes", message))
    if not errors and not any(
        label not in (0, IGNORED)
        for im in found.images
        if im.split == "train"
        for label in im.pixels
    ):
        message = (
            f"no training image has a pixel of a class other than {written.classes[0]!r}; a model "
            "needs some to learn from"
        )
        errors.append(problem("no_regions", message))
    return errors


def _build_index(
    classes: list[str], found: Found, form: MaskFormat, *, seed: int
) -> SegmentationIndex:
    images = found.images
    sizes = Counter(displayed_size(image.facts) for image in images)
    has_test = any(image.split == "test" for image in images)
    parts = _rank(images, seed=seed)
    splits = join_splits(parts, has_test=has_test)
    is_grey = all(image.facts.mode in GREY_MODES for image in images)
    channels: Literal[1, 3] = 1 if is_grey else 3
    num_validation = len(parts["validation"])
    return SegmentationIndex(
        mask_format=form,
        classes=classes,
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


def _rank(images: Sequence[Placed], *, seed: int) -> dict[Split, list[MaskedImage]]:
    """Return the images of each split with their rank among those of the same class."""
    num_with = Counter(label for image in images for label in _labels(image))
    splits: dict[Split, list[MaskedImage]] = {}
    for split in get_args(Split):
        found = [
            _describe(image, choose_class(_labels(image), num_with))
            for image in images
            if image.split == split
        ]
        pool_lone(found)
        ranks = rank_within_classes([image.stratum for image in found], seed=seed)
        for image, rank in zip(found, ranks, strict=True):
            image.rank = rank
        splits[split] = found
    return splits


def _labels(image: Placed) -> set[int]:
    """Return the classes that decide the split: those of an image without its background."""
    return set(image.pixels) - {0, IGNORED}


def _describe(image: Placed, label: int | None) -> MaskedImage:
    width, height = displayed_size(image.facts)
    return MaskedImage(
        path=image.entry.path,
        sha256=image.sha256,
        rank=0,
        width=width,
        height=height,
        label=label,
        labels=[label for label in image.pixels if label != IGNORED],
        mask=image.mask,
        mask_size=image.mask_size,
    )


def _count_masks(index: SegmentationIndex, found: Found) -> MaskCounts:
    """Count the pixels and the images of each class, as the masks of the index have them."""
    by_path = {image.entry.path: image.pixels for image in found.images}
    counts = MaskCounts(mask_format=index.mask_format)
    for split, images in split_masks(index).items():
        pixels: Counter[int] = Counter()
        for image in images:
            pixels.update(by_path[image.path])
        num_with = Counter(label for image in images for label in image.labels)
        counts.ignored[split] = pixels.pop(IGNORED, 0)
        counts.pixels[split] = {index.classes[k]: pixels[k] for k in sorted(pixels)}
        counts.images[split] = {index.classes[k]: num_with[k] for k in sorted(num_with)}
    return counts
