"""Inspects images with boxes."""

from collections.abc import Sequence

from redkiln.annotations import DetectionIndex
from service.datasets.inspect.boxes.coco import read_coco
from service.datasets.inspect.boxes.find import Annotations
from service.datasets.inspect.boxes.judge import judge
from service.datasets.inspect.boxes.labelme import read_labelme
from service.datasets.inspect.boxes.splits import settle_splits
from service.datasets.inspect.boxes.voc import read_voc
from service.datasets.inspect.boxes.written import Written, WrittenImage
from service.datasets.inspect.boxes.yolo import read_yolo
from service.datasets.inspect.boxes.yolo_config import read_config
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.inspection import read_regions
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.quality.boxes import check_boxes
from service.datasets.inspect.quality.images import check_images
from service.datasets.inspect.report import InspectionReport, show
from service.datasets.inspect.source import Source

FORMATS = {"coco": "COCO", "yolo": "YOLO", "voc": "Pascal VOC", "labelme": "LabelMe"}


def inspect_boxes(
    source: Source,
    files: Sequence[Entry],
    found: Annotations,
    *,
    has_masks: bool = False,
    seed: int,
    num_processes: int,
    limits: Limits,
) -> tuple[DetectionIndex | None, InspectionReport]:
    """Return the index, if the data set is valid, and the report.

    Args:
        source: The data set.
        files: All files.
        found: Its files with boxes.
        has_masks: Whether the mask of each object is read, and the box around it.
        seed: Random seed of the order of the images.
        num_processes: Processes that decode images.
        limits: Limits of the inspection.

    Raises:
        Refused: The set cannot be used, nor inspected completely.
    """
    if has_masks:
        written = read_regions(source, found, limits=limits)
    else:
        written = _read(source, found, limits=limits)
        written.notes[:0] = _note_format(found)
    used, apart = settle_splits(written.images)
    entries = [files[image.position] for image in used]
    probes = probe_all(source, entries, limits=limits, num_processes=num_processes)
    _note_unused(written, found, apart)
    index, report, placing = judge(files, written, used, probes, has_masks=has_masks, seed=seed)
    if index is not None:
        pairs = zip(entries, probes, strict=True)
        looks = {e.path: p.facts.look for e, p in pairs if p.facts and p.facts.look}
        num_cut = len(placing.cut)
        report.warnings = [*check_boxes(index, num_cut=num_cut), *check_images(index, looks)]
    return index, report


def _read(source: Source, found: Annotations, *, limits: Limits) -> Written:
    images = found.images
    match found.formats[0]:
        case "coco":
            return read_coco(source, found.coco, images, limits=limits)
        case "voc":
            return read_voc(source, found.voc, images, limits=limits)
        case "labelme":
            return read_labelme(source, found.labelme, images, limits=limits)
        case "yolo":
            yolo = found.yolo
            config = read_config(source, yolo.config, yolo.names, images, limits=limits)
            return read_yolo(source, yolo, images, config, limits=limits)


def _note_format(found: Annotations) -> list[str]:
    read, *others = (FORMATS[name] for name in found.formats)
    notes = [f"boxes are read as {read}; names of folders are not classes"]
    if others:
        notes.append(f"annotations in {' and '.join(others)} format were not read")
    return notes


def _note_unused(written: Written, found: Annotations, apart: Sequence[WrittenImage]) -> None:
    """Note the images that no annotations or no split name."""
    known = {image.position for image in written.images}
    files = found.images.files
    unnamed = (
        []
        if written.format == "yolo"
        else [place for place in found.images.positions if place not in known]
    )
    for places, what in (
        (unnamed, "have no annotations"),
        ([image.position for image in apart], "are in no split"),
    ):
        if places:
            names = ", ".join(show(files[place].path) for place in places[:3])
            written.notes.append(f"{len(places)} images {what} and are not used, such as {names}")
