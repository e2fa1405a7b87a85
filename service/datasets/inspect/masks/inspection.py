"""Inspects images with masks."""

from collections.abc import Sequence

from redkiln.annotations import MASK_FOLDER, SegmentationIndex
from service.datasets.inspect.boxes.coco import read_coco
from service.datasets.inspect.boxes.files import stem_of
from service.datasets.inspect.boxes.find import Annotations
from service.datasets.inspect.boxes.labelme import read_labelme
from service.datasets.inspect.boxes.splits import find_split, settle_splits
from service.datasets.inspect.boxes.written import Faults, Written, WrittenImage
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.find import MaskFiles
from service.datasets.inspect.masks.judge import judge
from service.datasets.inspect.masks.painting import BACKGROUND
from service.datasets.inspect.masks.png import read_names
from service.datasets.inspect.masks.reading import Masks, pair_masks
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.quality.images import check_images
from service.datasets.inspect.report import InspectionReport, refuse
from service.datasets.inspect.source import Source


def inspect_masks(
    source: Source,
    files: Sequence[Entry],
    found: MaskFiles | Annotations,
    *,
    seed: int,
    num_processes: int,
    limits: Limits,
) -> tuple[SegmentationIndex | None, InspectionReport]:
    """Return the index, if the data set is valid, and the report.

    Args:
        source: The data set.
        files: All files.
        found: Its masks, or its files with regions.
        seed: Random seed of the order of the images.
        num_processes: Processes that decode images.
        limits: Limits of the inspection.

    Raises:
        Refused: The set cannot be used, nor inspected completely.
    """
    pictures: dict[int, Entry] | None = None
    if isinstance(found, MaskFiles):
        written, pictures = _read_pictures(source, found, limits=limits)
    else:
        written = _read_regions(source, found, limits=limits)
    used, _ = settle_splits(written.images)
    entries = [files[image.position] for image in used]
    probes = probe_all(source, entries, limits=limits, num_processes=num_processes)
    labels = {name: label for label, name in enumerate(written.classes)}
    masks = Masks(labels, written.bad_boxes, source, limits, pictures)
    index, report = judge(files, written, used, probes, masks, seed=seed)
    if index is not None:
        pairs = zip(entries, probes, strict=True)
        looks = {e.path: p.facts.look for e, p in pairs if p.facts and p.facts.look}
        report.warnings = check_images(index, looks)
    return index, report


def _read_pictures(
    source: Source, found: MaskFiles, *, limits: Limits
) -> tuple[Written, dict[int, Entry]]:
    """Return the images that have a mask, and these masks."""
    images, faults = found.images, Faults()
    classes = read_names(source, found.names, limits=limits)
    positions = [
        images.find_stem(stem_of(mask), folder=_folder_of(mask), split=find_split(mask.parts))
        for mask in found.masks
    ]
    pairs, lonely = pair_masks(found.masks, positions)
    for mask in lonely:
        message = "has no image of the same name, or a second mask; give each image one mask"
        faults.add("missing_image", message, mask.path)
    for position in images.positions:
        if position not in pairs:
            message = f"has no mask of the same name in a folder {MASK_FOLDER}; add it"
            faults.add("missing_mask", message, images.files[position].path)
    listed = [
        WrittenImage(position, mask.path, find_split(images.files[position].parts))
        for position, mask in sorted(pairs.items(), key=lambda pair: pair[1].parts)
    ]
    notes = [
        f"masks are read from PNG files in folders {MASK_FOLDER}; names of folders are not classes"
    ]
    # The format only names how boxes would be written.
    written = Written(
        "coco", limits, classes=classes, images=listed, bad_images=faults, notes=notes
    )
    return written, pairs


def _folder_of(mask: Entry) -> tuple[str, ...]:
    """Return the folder next to which the image is: the one above `masks`, with what is below."""
    return tuple(part for part in mask.parts[:-1] if part.casefold() != MASK_FOLDER)


def _read_regions(source: Source, found: Annotations, *, limits: Limits) -> Written:
    """Read the regions of COCO or LabelMe; the first class is the background.

    Raises:
        Refused: The annotations are of a format without regions.
    """
    written = read_regions(source, found, limits=limits)
    written.classes = [BACKGROUND, *(one for one in written.classes if one != BACKGROUND)]
    written.notes[0] += f"; other pixels are {BACKGROUND}"
    return written


def read_regions(source: Source, found: Annotations, *, limits: Limits) -> Written:
    """Read the regions of COCO or LabelMe; the first note names the format.

    Raises:
        Refused: The annotations are of a format without regions.
    """
    name = next((name for name in found.formats if name in ("coco", "labelme")), None)
    if name is None:
        message = (
            f"annotations in the format {found.formats[0]} have boxes, but no regions; use COCO, "
            f"LabelMe, or PNG masks in a folder {MASK_FOLDER}, or train with task=object-detection"
        )
        raise refuse("no_regions", message)
    images = found.images
    if name == "coco":
        written = read_coco(source, found.coco, images, limits=limits, has_regions=True)
    else:
        written = read_labelme(source, found.labelme, images, limits=limits, has_regions=True)
    kind = "COCO" if name == "coco" else "LabelMe"
    written.notes.insert(0, f"regions are read as {kind}")
    return written
