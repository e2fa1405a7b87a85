"""Reads YOLO: a text file for each image, with a class number and a box in each line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from service.datasets.inspect.boxes.files import ImageFiles, stem_of, suffix_of
from service.datasets.inspect.boxes.splits import find_split
from service.datasets.inspect.boxes.text import BadText, read_text, split_lines
from service.datasets.inspect.boxes.written import Corners, Written, WrittenBox, WrittenImage
from service.datasets.inspect.boxes.yolo_config import YoloConfig
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry, Parts
from service.datasets.inspect.report import refuse, show
from service.datasets.inspect.source import Source

_MOST = 2.0
"""Larger values are pixels, not fractions of the image: no useful box reaches so far outside."""
NOT_LABELS = frozenset({"classes", "obj", "predefined_classes", "labels", "notes"})
"""Stems of text files in a folder of labels that are not labels of an image."""


@dataclass
class YoloFiles:
    """The files of a data set: labels, and what names the classes and splits."""

    labels: list[Entry] = field(default_factory=list)
    config: Entry | None = None
    names: Entry | None = None


def read_yolo(
    source: Source,
    files: YoloFiles,
    images: ImageFiles,
    config: YoloConfig,
    *,
    limits: Limits,
) -> Written:
    """Read the labels of a data set. An image without a file of labels has no objects.

    Raises:
        Refused: There are too many boxes or classes.
    """
    written = Written("yolo", limits, is_relative=True, notes=list(config.notes))
    labels = _pair(files.labels, images)
    reader = _Lines(config, written)
    for position in images.positions:
        parts = images.files[position].parts
        split = config.find_split(parts) if config.has_splits else find_split(parts)
        entry = labels.pop(position, None)
        image = WrittenImage(position, images.files[position].path, split)
        if entry is None:
            written.images.append(image)
            reader.num_without += 1
            continue
        try:
            text = read_text(source, entry, limits=limits)
        except BadText as bad:
            written.bad_images.add("bad_annotations", bad.message, bad.place)
            continue
        written.images.append(image)
        reader.read(text, entry.path, image)
    _report_orphans(files.labels, images, written)
    written.classes = config.classes or [str(label) for label in range(reader.most + 1)]
    written.notes += reader.describe()
    return written


def _pair(labels: Sequence[Entry], images: ImageFiles) -> dict[int, Entry]:
    """Return the labels of each image by its position: as `images/` and `labels/`, or by name."""
    by_parts = {(*entry.parts[:-1], stem_of(entry)): entry for entry in labels}
    by_stem: dict[str, list[Entry]] = {}
    for one in labels:
        by_stem.setdefault(stem_of(one), []).append(one)
    found: dict[int, Entry] = {}
    for position in images.positions:
        image = images.files[position]
        places = (place for place in _places_of_labels(image) if place in by_parts)
        entry: Entry | None = next(map(by_parts.__getitem__, places), None)
        named = by_stem.get(stem_of(image), [])
        if entry is None and len(named) == 1 and images.has_only(stem_of(image)):
            entry = named[0]
        if entry is not None:
            found[position] = entry
    return found


def _places_of_labels(image: Entry) -> list[Parts]:
    """Return where the labels of an image may be, without their ending."""
    folder, stem = image.parts[:-1], stem_of(image)
    places = [(*folder, stem), (*folder, "labels", stem)]
    for depth in reversed(range(len(folder))):
        if folder[depth].casefold() == "images":
            places.insert(0, (*folder[:depth], "labels", *folder[depth + 1 :], stem))
    if folder:
        places.append((*folder[:-1], "labels", folder[-1], stem))
    return places


def _report_orphans(labels: Sequence[Entry], images: ImageFiles, written: Written) -> None:
    for entry in labels:
        if not images.has_stem(stem_of(entry)) and suffix_of(entry) == ".txt":
            message = "has labels, but there is no image of this name"
            written.bad_images.add("missing_image", message, entry.path)


class _Lines:
    """Reads the lines of files of labels.

    Attributes:
        most: Largest class number so far; -1 before the first.
        num_without: Images without a file of labels.
        num_outlines: Lines with an outline instead of a box.
    """

    def __init__(self, config: YoloConfig, written: Written) -> None:
        self._config = config
        self._written = written
        self.most = -1
        self.num_without = 0
        self.num_outlines = 0

    def read(self, text: str, path: str, image: WrittenImage) -> None:
        """Add the objects of one image."""
        for number, words in split_lines(text):
            self._written.count_box()
            place = f"{path}, line {number}"
            found = self._read_line(words, place)
            if isinstance(found, WrittenBox):
                image.boxes.append(found)
            else:
                self._written.bad_boxes.add(*found, place)

    def describe(self) -> list[str]:
        """Return the notes about what was read."""
        notes = []
        if self.num_without:
            num = self.num_without
            images = "1 image without a label file counts"
            if num > 1:
                images = f"{num} images without label files count"
            notes.append(f"{images} as having no objects")
        if self.num_outlines:
            num = self.num_outlines
            outlines = "1 outline was" if num == 1 else f"{num} outlines were each"
            notes.append(f"{outlines} replaced by the smallest box around it")
        if not self._config.classes:
            notes.append("data.yaml with names is missing, so classes are named by their numbers")
        return notes

    def _read_line(self, words: Sequence[str], place: str) -> WrittenBox | tuple[str, str]:
        try:
            label, *values = map(float, words)
        except ValueError:
            return "bad_box", f"is not a line of numbers: {show(' '.join(words))[:60]}"
        name = self._name(label)
        if name is None:
            most = len(self._config.classes) - 1
            known = f"0 to {most}" if most >= 0 else "whole numbers from 0"
            return "unknown_class", f"has the class {words[0]}, but the classes are {known}"
        corners = self._read_corners(values)
        if corners is None:
            message = f"has {len(words)} values; a box has 5: class, centre x and y, width, height"
            return "bad_box", message
        big = next((value for value in values if abs(value) > _MOST), None)
        if big is not None and math.isfinite(big):
            message = f"has {big:g}, but coordinates are fractions of the image's size, 0 to 1"
            return "not_normalised", message
        return WrittenBox(name, corners, place)

    def _name(self, label: float) -> str | None:
        """Return the name of a class number; None if there is no such class."""
        classes = self._config.classes
        if not label.is_integer() or label < 0 or (classes and label >= len(classes)):
            return None
        number = int(label)
        if number >= self._written.limits.max_classes:
            most = self._written.limits.max_classes
            message = f"there is a class {number}, but at most {most} classes are allowed"
            raise refuse("too_many_classes", message)
        self.most = max(self.most, number)
        return classes[number] if classes else str(number)

    def _read_corners(self, values: Sequence[float]) -> Corners | None:
        """Return the corners of a box, an outline, or a box with key points; None if unclear."""
        if len(values) == 4 or (self._config.has_key_points and len(values) > 4):
            x, y, width, height = values[:4]
            return x - width / 2, y - height / 2, x + width / 2, y + height / 2
        if len(values) < 6 or len(values) % 2:
            return None
        self.num_outlines += 1
        if not all(map(math.isfinite, values)):
            return math.nan, math.nan, math.nan, math.nan
        xs, ys = values[::2], values[1::2]
        return min(xs), min(ys), max(xs), max(ys)
