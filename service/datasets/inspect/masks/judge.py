"""Decides from masks and images whether a data set for segmentation is valid."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from redkiln.annotations import (
    IGNORED,
    MOST_MASK_CLASSES,
    MaskedImage,
    MaskFormat,
    SegmentationIndex,
)
from redkiln.predict.masks.coding import pack_mask
from redkiln.views.dataset import DatasetProblem, MaskCounts
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.placed import (
    Placed,
    describe_images,
    describe_splits,
    find_too_many_bad,
    note_fault,
)
from service.datasets.inspect.boxes.text import BadText
from service.datasets.inspect.boxes.written import Written, WrittenImage
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import GIB
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.reading import Masks, count_labels
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.report import MAX_LISTED, InspectionReport, problem, refuse
from service.datasets.inspect.verdict import no_test_split

MOST_BYTES = 2 * GIB
"""Size of all packed masks together."""


@dataclass(frozen=True)
class PlacedMask(Placed):
    """An image that can be used, with the pixels of each label of its mask."""

    mask: str
    mask_size: tuple[int, int]
    pixels: dict[int, int]


@dataclass
class Found:
    """The images of a data set and what was noticed about them."""

    images: list[PlacedMask] = field(default_factory=list)
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
    report = describe_images(
        written,
        found.images,
        nouns="regions",
        notes=_note_masks(masks),
        size_bytes=found.size_bytes,
    )
    report.errors = [*found.fatal, *_find_errors(written, found)][: MAX_LISTED + 10]
    if report.errors:
        return None, report
    form: MaskFormat = "png"
    if masks.pictures is None:
        form = "coco" if written.format == "coco" else "labelme"
    index = SegmentationIndex(
        mask_format=form,
        classes=written.classes,
        **describe_splits(found.images, labels_of=_labels, write=_describe, seed=seed),
    )
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
            note_fault(probe, entry, written, fatal=found.fatal)
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
        placed = PlacedMask(entry, split, probe.facts, probe.sha256, packed, size, counts)
        found.images.append(placed)
        found.size_bytes += probe.size_bytes
    found.images.sort(key=lambda placed: placed.entry.parts)
    return found


def _note_masks(masks: Masks) -> list[str]:
    if not masks.num_turned:
        return []
    note = (
        f"EXIF rotates {masks.num_turned} images; their masks matched the images before the "
        "rotation, so the masks were rotated, too"
    )
    return [note]


def _find_errors(written: Written, found: Found) -> list[DatasetProblem]:
    errors = find_too_many_bad(written, num_used=len(found.images), nouns="regions")
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


def _labels(image: PlacedMask) -> set[int]:
    """Return the classes that decide the split: those of an image without its background."""
    return set(image.pixels) - {0, IGNORED}


def _describe(image: PlacedMask) -> MaskedImage:
    width, height = displayed_size(image.facts)
    return MaskedImage(
        path=image.entry.path,
        sha256=image.sha256,
        rank=0,
        width=width,
        height=height,
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
