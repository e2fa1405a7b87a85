"""The process that draws images of a data set: one argument, the path of a `TilesOrder` as JSON.

It writes `tiles.png`: square tiles in rows, in the order of the images. An image that cannot be
read leaves its tile black.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image, ImageDraw
from pydantic import BaseModel

from redkiln.annotations import class_colour
from redkiln.datasets import IMAGE_FORMATS
from redkiln.predict.masks.coding import unpack_mask
from redkiln.predict.masks.drawing import STRENGTH, overlay
from redkiln.predict.pixels import to_upright
from service.datasets.inspect.arrays.content import (
    as_values,
    parse_array,
    read_file,
    unpack_inner,
)
from service.datasets.inspect.images import BadImage, is_supported, prepare_decoder
from service.datasets.inspect.limits import GIB, MIB, Limits, confine
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.source import Source, open_archive, open_folder

PICTURE = "tiles.png"
LINE = 2
"""Width of the lines around boxes in pixels."""
_CPU_SECONDS = 60


class TileBox(NamedTuple):
    """A box to draw.

    Attributes:
        label: Its class.
        xyxy: (left, top, right, bottom) as fractions of the image.
        mask: Pixels of the object in the box, packed, and their (width, height).
    """

    label: int
    xyxy: tuple[float, float, float, float]
    mask: tuple[str, tuple[int, int]] | None = None


class TileMask(NamedTuple):
    """A mask to draw: packed, its (width, height), and the number of classes."""

    packed: str
    size: tuple[int, int]
    num_classes: int


class TileImage(NamedTuple):
    """An image to draw.

    Attributes:
        path: Path of its file in the archive or folder.
        row: Row in a file that holds an array of images; None for an image file.
        array: Name of the array in an NPZ.
        boxes: Boxes to draw on it, in the colours of their classes.
        mask: Mask to draw over it, likewise; None without one.
    """

    path: str
    row: int | None = None
    array: str | None = None
    boxes: tuple[TileBox, ...] = ()
    mask: TileMask | None = None


class TilesOrder(BaseModel):
    """Images to draw.

    Attributes:
        path: Path of the archive, or of the trusted root that contains the folder.
        below: Path components of the folder below that root.
        side: Width and height of a tile in pixels.
        parent_pid: Process that waits for the picture; this one ends with it.
    """

    kind: Literal["archive", "folder"]
    path: str
    below: list[str] = []
    images: list[TileImage]
    columns: int
    side: int
    parent_pid: int


def main(order_path: Path) -> None:
    """Draw the order's images into a picture next to it."""
    order = TilesOrder.model_validate_json(order_path.read_bytes())
    limits = replace(
        Limits(), memory_bytes=4 * GIB, cpu_seconds=_CPU_SECONDS, max_file_bytes=64 * MIB
    )
    confine(limits, parent_pid=order.parent_pid)
    prepare_decoder(limits)
    rows = -(-len(order.images) // order.columns)
    sheet = Image.new("RGB", (order.columns * order.side, rows * order.side))
    with _open(order, work_dir=order_path.parent, limits=limits) as source:
        wanted = {image.path for image in order.images}
        entries = {
            entry.path: entry
            for entry in source.list_files(limits=limits).files
            if entry.path in wanted
        }
        pictures = Pictures(source, entries, limits=limits)
        for number, image in enumerate(order.images):
            if image.path not in entries:
                continue
            try:
                tile = pictures.draw(image, side=order.side)
            except BadImage:
                continue
            left = number % order.columns * order.side + (order.side - tile.width) // 2
            top = number // order.columns * order.side + (order.side - tile.height) // 2
            sheet.paste(tile, (left, top))
    sheet.save(order_path.parent / PICTURE)


class Pictures:
    """Draws images of a source, and reads each array of images once."""

    def __init__(self, source: Source, entries: Mapping[str, Entry], *, limits: Limits) -> None:
        self._source = source
        self._entries = entries
        self._limits = limits
        self._open_array = lru_cache(maxsize=1)(self._read_array)

    def draw(self, image: TileImage, *, side: int) -> Image.Image:
        """Return an image, made small enough for a tile.

        Raises:
            BadImage: It cannot be read.
        """
        if image.row is None:
            data = self._source.read(self._entries[image.path], limits=self._limits)
            tile = draw(data, side=side)
            draw_boxes(tile, image.boxes)
            return tile if image.mask is None else cover(tile, image.mask)
        pixels = self._open_array(image.path, image.array)[image.row]
        picture = Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)
        picture.thumbnail((side, side))
        return _enlarge(picture.convert("RGB"), side=side)

    def read(self, image: TileImage) -> bytes:
        """Return the content of an image's file; of a row of an array, a PNG.

        Raises:
            BadImage: It cannot be read.
        """
        if image.row is None:
            return self._source.read(self._entries[image.path], limits=self._limits)
        pixels = self._open_array(image.path, image.array)[image.row]
        content = io.BytesIO()
        Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(
            content, "PNG"
        )
        return content.getvalue()

    def _read_array(self, path: str, name: str | None) -> np.ndarray:
        content = read_file(self._source, self._entries[path], limits=self._limits)
        return as_values(parse_array(content if name is None else unpack_inner(content, name)))


def draw(data: bytes, *, side: int) -> Image.Image:
    """Return an image file, made small enough for a tile and upright.

    Raises:
        BadImage: It cannot be decoded.
    """
    if not is_supported(data):
        raise BadImage("not_an_image", "is not an image")
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            image.draft("RGB", (side, side))
            upright = to_upright(image, "RGB")
            upright.thumbnail((side, side))
            return _enlarge(upright, side=side)
    except Exception as error:  # noqa: BLE001  a decoder may raise anything on hostile bytes
        raise BadImage("bad_image", str(error)) from None


def draw_boxes(tile: Image.Image, boxes: Sequence[TileBox]) -> None:
    """Draw the outlines of boxes on a picture, the largest first, over the pixels of objects."""
    pen = ImageDraw.Draw(tile)
    width, height = tile.width - 1, tile.height - 1
    for box in sorted(boxes, key=_area, reverse=True):
        left, top, right, bottom = box.xyxy
        corners = (left * width, top * height, right * width, bottom * height)
        if box.mask is not None:
            _tint(tile, box.mask, corners, class_colour(box.label))
        pen.rectangle(corners, outline=class_colour(box.label), width=LINE)


def _tint(
    tile: Image.Image,
    mask: tuple[str, tuple[int, int]],
    corners: tuple[float, float, float, float],
    colour: tuple[int, int, int],
) -> None:
    """Colour the pixels of an object on a picture."""
    left, top, right, bottom = (round(end) for end in corners)
    pixels = Image.fromarray(unpack_mask(*mask) * round(255 * STRENGTH))
    fitted = pixels.resize((max(1, right - left), max(1, bottom - top)))
    tile.paste(colour, (left, top), fitted)


def cover(tile: Image.Image, mask: TileMask) -> Image.Image:
    """Return a picture with a mask over it, in the colours of the classes."""
    pixels = Image.fromarray(unpack_mask(mask.packed, mask.size))
    fitted = np.asarray(pixels.resize(tile.size, Image.Resampling.NEAREST))
    return Image.fromarray(overlay(np.asarray(tile), fitted, num_classes=mask.num_classes))


def _area(box: TileBox) -> float:
    left, top, right, bottom = box.xyxy
    return (right - left) * (bottom - top)


def _enlarge(image: Image.Image, *, side: int) -> Image.Image:
    """Return a small image with each pixel as a square, as large as fits into a tile."""
    times = max(1, side // max(image.size))
    return image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)


def _open(order: TilesOrder, *, work_dir: Path, limits: Limits) -> AbstractContextManager[Source]:
    if order.kind == "folder":
        return open_folder(Path(order.path), order.below)
    return open_archive(Path(order.path), work_dir=work_dir, limits=limits)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
