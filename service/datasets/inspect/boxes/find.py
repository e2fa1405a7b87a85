"""Recognises by the names of files which format the boxes of a data set are in, if it has some."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from redkiln.annotations import AnnotationFormat
from service.datasets.inspect.boxes.files import ImageFiles, stem_of, suffix_of
from service.datasets.inspect.boxes.voc import SPLIT_LISTS, VocFiles
from service.datasets.inspect.boxes.yolo import NOT_LABELS, YoloFiles
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.source import Source

_COCO_NAME = re.compile(r"instances_.*\.json|.*\.coco\.json", re.I)
_COCO_KEYS = re.compile(rb'\s*\{\s*"(?:info|licenses|categories|images|annotations)"\s*:')
_COCO_PARTS = (b'"images"', b'"annotations"', b'"categories"', b'"bbox"')
_LABELME_PARTS = (b'"shapes"', b'"points"')
_OTHER_COCO = re.compile(r"(captions|panoptic|stuff|image_info)_.*", re.I)
"""Files next to COCO's instances that hold something else."""
_YAML = (".yaml", ".yml")
_NAMES = ("classes.txt", "obj.names", "predefined_classes.txt")
_WITH_CONFIG: tuple[AnnotationFormat, ...] = ("yolo", "coco", "voc", "labelme")
_WITHOUT_CONFIG: tuple[AnnotationFormat, ...] = ("coco", "voc", "yolo", "labelme")
_ENDINGS = frozenset({".json", ".txt", ".xml", *_YAML})
"""Endings of all files that hold boxes."""
_MAX_PEEKED = 20
"""JSON files that are opened to see whether they are COCO's; one for each split is usual."""


@dataclass
class Annotations:
    """The files of a data set that hold boxes, by format.

    Attributes:
        format: The format that is read.
        others: Formats of which there are files, too.
    """

    images: ImageFiles
    coco: list[Entry] = field(default_factory=list)
    yolo: YoloFiles = field(default_factory=YoloFiles)
    voc: VocFiles = field(default_factory=VocFiles)
    labelme: list[Entry] = field(default_factory=list)

    @property
    def formats(self) -> list[AnnotationFormat]:
        """The formats of which there are files, the one that is read first."""
        found = {
            "coco": bool(self.coco),
            "voc": bool(self.voc.annotations),
            "yolo": bool(self.yolo.labels),
            "labelme": bool(self.labelme),
        }
        order = _WITH_CONFIG if self.yolo.config else _WITHOUT_CONFIG
        return [name for name in order if found[name]]


def find_annotations(
    source: Source, files: Sequence[Entry], *, limits: Limits
) -> Annotations | None:
    """Return the files with boxes; None if the data set has no images or no boxes.

    Args:
        source: The data set, from which some files are read if their names do not tell.
        files: All files.
        limits: Limits of the inspection.
    """
    if not any(suffix_of(entry) in _ENDINGS for entry in files):
        return None  # most sets; sorting a million images by path takes long
    images = ImageFiles(files)
    if not images.positions:
        return None
    found = Annotations(images)
    found.coco = _find_coco(source, files, images, limits=limits)
    found.yolo = _find_yolo(files, images)
    found.voc = _find_voc(files, images)
    found.labelme = _find_labelme(source, files, images, limits=limits)
    return found if found.formats else None


def _find_coco(
    source: Source, files: Sequence[Entry], images: ImageFiles, *, limits: Limits
) -> list[Entry]:
    named = [entry for entry in files if _COCO_NAME.fullmatch(entry.parts[-1])]
    if named:
        return sorted(named, key=lambda entry: entry.parts)
    others = [
        entry
        for entry in files
        if suffix_of(entry) == ".json"
        and not images.has_stem(stem_of(entry))
        and not _OTHER_COCO.fullmatch(entry.parts[-1])
    ]
    peeked = sorted(others, key=lambda entry: entry.parts)[:_MAX_PEEKED]
    return [entry for entry in peeked if _is_coco(_peek(source, entry, limits=limits))]


def _is_coco(content: bytes) -> bool:
    return _COCO_KEYS.match(content) is not None and all(part in content for part in _COCO_PARTS)


def _peek(source: Source, entry: Entry, *, limits: Limits) -> bytes:
    try:
        return source.read(entry, limits=limits)
    except BadImage:
        return b""  # whether it can be read is decided where it is needed


def _find_yolo(files: Sequence[Entry], images: ImageFiles) -> YoloFiles:
    configs = [entry for entry in files if suffix_of(entry) in _YAML]
    configs.sort(key=lambda entry: (stem_of(entry) != "data", len(entry.parts), entry.parts))
    names = [entry for entry in files if entry.parts[-1].casefold() in _NAMES]
    is_declared = bool(configs or names)
    labels = [
        entry
        for entry in files
        if suffix_of(entry) == ".txt"
        and stem_of(entry).casefold() not in NOT_LABELS
        and (_is_in_labels(entry) or (is_declared and images.has_stem(stem_of(entry))))
    ]
    if not any(images.has_stem(stem_of(entry)) for entry in labels):
        return YoloFiles()
    return YoloFiles(
        sorted(labels, key=lambda entry: entry.parts),
        config=configs[0] if configs else None,
        names=min(names, key=lambda entry: entry.parts) if names else None,
    )


def _is_in_labels(entry: Entry) -> bool:
    return any(part.casefold() == "labels" for part in entry.parts[:-1])


def _find_voc(files: Sequence[Entry], images: ImageFiles) -> VocFiles:
    found = [entry for entry in files if suffix_of(entry) == ".xml"]
    if not any(images.has_stem(stem_of(entry)) for entry in found):
        return VocFiles()
    lists = [
        entry
        for entry in files
        if entry.parts[-2:-1] == ("Main",)
        and suffix_of(entry) == ".txt"
        and stem_of(entry) in SPLIT_LISTS
    ]
    return VocFiles(sorted(found, key=lambda entry: entry.parts), lists)


def _find_labelme(
    source: Source, files: Sequence[Entry], images: ImageFiles, *, limits: Limits
) -> list[Entry]:
    found = [
        entry for entry in files if suffix_of(entry) == ".json" and images.has_stem(stem_of(entry))
    ]
    found.sort(key=lambda entry: entry.parts)
    peeked = (_peek(source, entry, limits=limits) for entry in found[:_MAX_PEEKED])
    is_labelme = any(all(part in content for part in _LABELME_PARTS) for content in peeked)
    return found if is_labelme else []
