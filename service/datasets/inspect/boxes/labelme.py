"""Reads LabelMe: a JSON file next to each image, with shapes of which rectangles become boxes."""

import math
from collections.abc import Sequence
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from service.datasets.inspect.boxes.files import ImageFiles, stem_of
from service.datasets.inspect.boxes.splits import find_split
from service.datasets.inspect.boxes.text import BadText, parse_json, read_bytes
from service.datasets.inspect.boxes.written import (
    Corners,
    Written,
    WrittenBox,
    WrittenImage,
    read_number,
    read_size,
)
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import show
from service.datasets.inspect.source import Source

_WITH_AREA = {"rectangle", "polygon", "circle", "mask", "oriented_rectangle"}


_SIDES = 64
"""Sides of the polygon that stands for a circle."""


class _Shape(TypedDict, total=False):
    label: Any
    points: Any
    shape_type: Any


class LabelMe(TypedDict):
    """What is read of a file; the copy of the image in it is skipped."""

    shapes: list[_Shape]
    imagePath: NotRequired[Any]
    imageWidth: NotRequired[Any]
    imageHeight: NotRequired[Any]


LABELME = TypeAdapter(LabelMe)


def read_labelme(
    source: Source,
    entries: Sequence[Entry],
    images: ImageFiles,
    *,
    limits: Limits,
    has_regions: bool = False,
) -> Written:
    """Read the files of a data set; the classes are those that occur, sorted.

    With `has_regions`, the outline of each shape is read in addition to the box around it.

    Raises:
        Refused: There are too many boxes.
    """
    written = Written("labelme", limits)
    used: set[int] = set()
    without_area = 0
    for entry in entries:
        try:
            content = read_bytes(source, entry, max_bytes=limits.max_file_bytes, limits=limits)
            parsed: LabelMe = parse_json(content, LABELME, entry.path)
        except BadText as bad:
            written.bad_images.add("bad_annotations", bad.message, bad.place)
            continue
        image = _find_image(entry, parsed, images, written, used)
        if image is not None:
            written.images.append(image)
            without_area += _read_shapes(parsed["shapes"], image, written, has_regions=has_regions)
    written.classes = sorted({box.class_name for im in written.images for box in im.boxes})
    if without_area:
        written.notes.append(f"{without_area} points and lines have no area and were left out")
    return written


def _find_image(
    entry: Entry, parsed: LabelMe, images: ImageFiles, written: Written, used: set[int]
) -> WrittenImage | None:
    folder, split = entry.parts[:-1], find_split(entry.parts)
    position = images.find_stem(stem_of(entry), folder=folder, split=split)
    named = parsed.get("imagePath")
    if position is None and isinstance(named, str):
        position = images.find(named, folder=folder, split=split)
    if position is None or position in used:
        message = (
            "has no image, or another file annotates it already; put one file next to each image"
        )
        written.bad_images.add("missing_image", message, entry.path)
        return None
    used.add(position)
    size = read_size(parsed.get("imageWidth"), parsed.get("imageHeight"))
    split = find_split(images.files[position].parts)
    return WrittenImage(position, entry.path, split, size)


def _read_shapes(
    shapes: Sequence[_Shape], image: WrittenImage, written: Written, *, has_regions: bool
) -> int:
    """Add the shapes of an image; return how many have no area."""
    without_area = 0
    for number, shape in enumerate(shapes):
        written.count_box()
        place = f"{image.place}#/shapes/{number}"
        kind, label = str(shape.get("shape_type") or "polygon"), shape.get("label")
        if kind not in _WITH_AREA:
            without_area += 1
            continue
        corners = _read_corners(shape.get("points"), is_circle=kind == "circle")
        if not isinstance(label, str) or not label.strip():
            written.bad_boxes.add("unknown_class", "has no label", place)
        elif corners is None:
            message = f"{show(kind)} {show(label)} needs at least two points of two numbers"
            written.bad_boxes.add("bad_box", message, place)
        elif not has_regions:
            image.boxes.append(WrittenBox(label.strip(), corners, place))
        elif (outline := _find_outline(shape["points"], kind)) is None:
            message = (
                f"{show(kind)} {show(label)} is not a polygon, rectangle or circle; draw it as one"
            )
            written.bad_boxes.add("bad_region", message, place)
        else:
            one = WrittenBox(label.strip(), corners, place, region=(outline,))
            image.boxes.append(one)
    return without_area


def _find_outline(points: list[list[float]], kind: str) -> tuple[float, ...] | None:
    """Return the outline of a shape as x, y, x, y, ...; None if the shape has none."""
    if kind == "circle":
        (x, y), edge = points[0], points[1]
        radius, steps = math.dist((x, y), edge), (2 * math.pi * n / _SIDES for n in range(_SIDES))
        corners = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in steps]
    elif kind == "rectangle" and len(points) == 2:
        (left, top), (right, bottom) = points
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    elif kind != "mask" and len(points) > 2:
        corners = [(x, y) for x, y in points]
    else:
        return None
    return tuple(float(value) for corner in corners for value in corner)


def _read_corners(points: object, *, is_circle: bool) -> Corners | None:
    """Return the smallest box around points; a circle has its centre and a point on its line."""
    if not isinstance(points, list) or len(points) < 2:
        return None
    xs: list[float] = []
    ys: list[float] = []
    for point in points:
        x, y = (
            map(read_number, point) if isinstance(point, list) and len(point) == 2 else (None,) * 2
        )
        if x is None or y is None:
            return None
        xs.append(x)
        ys.append(y)
    if not all(map(math.isfinite, (*xs, *ys))):
        return math.nan, math.nan, math.nan, math.nan
    if is_circle:
        radius = math.dist((xs[0], ys[0]), (xs[1], ys[1]))
        return xs[0] - radius, ys[0] - radius, xs[0] + radius, ys[0] + radius
    return min(xs), min(ys), max(xs), max(ys)
