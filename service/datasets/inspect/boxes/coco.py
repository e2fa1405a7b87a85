"""Reads COCO: a JSON file for each split, with lists of images, categories and annotations."""

import math
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from service.datasets.inspect.boxes.files import ImageFiles
from service.datasets.inspect.boxes.regions import find_corners, read_segmentation
from service.datasets.inspect.boxes.splits import find_split, find_split_of_name
from service.datasets.inspect.boxes.text import BadText, parse_json, read_bytes
from service.datasets.inspect.boxes.written import (
    Corners,
    Polygons,
    Runs,
    Written,
    WrittenBox,
    WrittenImage,
    read_number,
    read_size,
)
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse, show
from service.datasets.inspect.source import Source


class _Image(TypedDict, total=False):
    id: Any
    file_name: Any
    width: Any
    height: Any


class _Category(TypedDict, total=False):
    id: Any
    name: Any
    supercategory: Any


class _Annotation(TypedDict, total=False):
    id: Any
    image_id: Any
    category_id: Any
    bbox: Any
    iscrowd: Any


class _Region(_Annotation, total=False):
    segmentation: Any


class Coco(TypedDict):
    """What is read of a file; segmentations, licences and so on are skipped."""

    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Annotation]


class CocoRegions(TypedDict):
    """The same with segmentations."""

    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Region]


COCO = TypeAdapter(Coco)
REGIONS = TypeAdapter(CocoRegions)


def read_coco(
    source: Source,
    entries: Sequence[Entry],
    images: ImageFiles,
    *,
    limits: Limits,
    has_regions: bool = False,
) -> Written:
    """Read the files of a data set; each has a split by its name or folder.

    With `has_regions`, the segmentation of each object is read instead of its box.

    Raises:
        Refused: A file cannot be read, or contradicts itself or another one.
    """
    written = Written("coco", limits)
    supers: set[str] = set()
    # The classes are in the order of the training file, if there is one.
    for entry in sorted(entries, key=lambda entry: find_split_of_name(entry.parts) != "train"):
        content = _read(source, entry, REGIONS if has_regions else COCO, limits=limits)
        _Reader(entry, images, written, supers, has_regions=has_regions).read(content)
    _drop_supercategories(written, supers)
    return written


def _read(source: Source, entry: Entry, shape: TypeAdapter[Any], *, limits: Limits) -> Coco:
    try:
        content = read_bytes(source, entry, max_bytes=limits.max_annotations_bytes, limits=limits)
        parsed: Coco = parse_json(content, shape, entry.path)
    except BadText as bad:
        raise refuse("bad_annotations", bad.message, bad.place) from None
    return parsed


class _Reader:
    """Adds the content of one file to what is written."""

    def __init__(
        self,
        entry: Entry,
        images: ImageFiles,
        written: Written,
        supers: set[str],
        *,
        has_regions: bool,
    ) -> None:
        self._has_regions = has_regions
        self._entry = entry
        self._images = images
        self._written = written
        self._supers = supers
        self._split = find_split_of_name(entry.parts)
        self._used = {image.position for image in written.images}

    def read(self, content: Coco) -> None:
        """Read categories, images and annotations."""
        names = self._read_categories(content["categories"])
        by_id = self._read_images(content["images"])
        ids: set[object] = set()
        for number, annotation in enumerate(content["annotations"]):
            self._written.count_box()
            place = self._place("annotations", number)
            found = self._read_annotation(annotation, place, names, by_id, ids)
            if isinstance(found, tuple):
                self._written.bad_boxes.add(*found, place)

    def _place(self, field: str, number: int) -> str:
        return f"{self._entry.path}#/{field}/{number}"

    def _read_categories(self, categories: Sequence[_Category]) -> dict[object, str]:
        names: dict[object, str] = {}
        for number, category in enumerate(categories):
            place = self._place("categories", number)
            key, name = category.get("id"), category.get("name")
            if not isinstance(key, int | str) or not isinstance(name, str) or not name.strip():
                raise refuse("bad_category", "needs an id and a name", place)
            if key in names:
                message = f"has the id {show(str(key))} of another category; give it its own"
                raise refuse("duplicate_id", message, place)
            if name in names.values():
                message = f"has the name {show(name)} of another category; merge or rename them"
                raise refuse("duplicate_class", message, place)
            names[key] = name
            self._supers.add(str(category.get("supercategory")))
        known = set(self._written.classes)
        ordered = sorted(names, key=lambda key: (isinstance(key, str), key))
        self._written.classes += [names[key] for key in ordered if names[key] not in known]
        return names

    def _read_images(self, images: Sequence[_Image]) -> dict[object, WrittenImage | None]:
        """Return the images by id; None for those whose file is missing."""
        by_id: dict[object, WrittenImage | None] = {}
        for number, image in enumerate(images):
            place = self._place("images", number)
            key, name = image.get("id"), image.get("file_name")
            if not isinstance(key, int | str) or not isinstance(name, str):
                raise refuse("bad_image_entry", "needs an id and a file_name", place)
            if key in by_id:
                message = f"has the id {show(str(key))} of another image; give each its own"
                raise refuse("duplicate_id", message, place)
            size = read_size(image.get("width"), image.get("height"))
            by_id[key] = self._add_image(name, place, size)
        return by_id

    def _add_image(
        self, name: str, place: str, size: tuple[int, int] | None
    ) -> WrittenImage | None:
        position = self._images.find(name, folder=self._entry.parts[:-1], split=self._split)
        if position is None:
            message = f"there is no file {show(name)}, or several in different folders"
            self._written.bad_images.add("missing_image", message, place)
            return None
        if position in self._used:
            message = f"{show(name)} is listed a second time; list each image once"
            raise refuse("duplicate_image", message, place)
        self._used.add(position)
        split = self._split or find_split(self._images.files[position].parts)
        found = WrittenImage(position, place, split, size)
        self._written.images.append(found)
        return found

    def _read_annotation(
        self,
        annotation: _Annotation,
        place: str,
        names: dict[object, str],
        by_id: dict[object, WrittenImage | None],
        ids: set[object],
    ) -> tuple[str, str] | None:
        """Add an object to its image; return code and message if it cannot be used."""
        key, image_id = annotation.get("id"), annotation.get("image_id")
        category = annotation.get("category_id")
        if isinstance(key, int | str):
            if key in ids:
                return "duplicate_id", f"has the id {show(str(key))} of another annotation"
            ids.add(key)
        if not isinstance(image_id, int | str) or image_id not in by_id:
            return "unknown_image", f"has image_id {show(str(image_id))}, which no image has"
        if not isinstance(category, int | str) or category not in names:
            return "unknown_class", f"has category_id {show(str(category))}, which no category has"
        corners: Corners | None
        region: Polygons | Runs | None = None
        if self._has_regions:
            found = read_segmentation(annotation.get("segmentation"))
            if isinstance(found, str):
                return "bad_region", found
            region, corners = found, find_corners(found)
        else:
            corners = _read_corners(annotation.get("bbox"))
        if corners is None:
            return "bad_box", "needs `bbox` with four numbers: left, top, width, height"
        image = by_id[image_id]
        if image is not None:
            is_crowd = annotation.get("iscrowd") in (1, True)
            image.boxes.append(WrittenBox(names[category], corners, place, is_crowd, region))
        return None


def _read_corners(bbox: object) -> Corners | None:
    if not isinstance(bbox, list) or len(bbox) != 4:
        return None
    left, top, width, height = (read_number(value) for value in bbox)
    if left is None or top is None or width is None or height is None:
        return None
    if not all(map(math.isfinite, (left, top, width, height))):
        return left, top, width, height  # reported as such with all other formats
    return left, top, left + width, top + height


def _drop_supercategories(written: Written, supers: set[str]) -> None:
    """Drop categories without boxes that only group others, as some exports begin with."""
    used = {box.class_name for image in written.images for box in image.boxes}
    dropped = [name for name in written.classes if name in supers and name not in used]
    written.classes = [name for name in written.classes if name not in dropped]
    if dropped:
        names = ", ".join(show(name) for name in dropped[:5])
        written.notes.append(f"categories that only group others are not classes: {names}")
