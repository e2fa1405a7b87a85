"""The process that draws images of a data set: one argument, the path of a `TilesOrder` as JSON.

It writes `tiles.png`: square tiles in rows, in the order of the paths. An image that cannot be read
leaves its tile black.
"""

import io
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from PIL import Image, ImageOps
from pydantic import BaseModel

from redkiln.datasets import IMAGE_FORMATS
from service.datasets.inspect.images import BadImage, is_supported, prepare_decoder
from service.datasets.inspect.limits import GIB, MIB, Limits, confine
from service.datasets.inspect.source import Source, open_archive, open_folder

PICTURE = "tiles.png"
_CPU_SECONDS = 60


class TilesOrder(BaseModel):
    """Images to draw.

    Attributes:
        path: Path of the archive, or of the trusted root that contains the folder.
        below: Path components of the folder below that root.
        images: Paths of the images in the archive or folder.
        side: Width and height of a tile in pixels.
        parent_pid: Process that waits for the picture; this one ends with it.
    """

    kind: Literal["archive", "folder"]
    path: str
    below: list[str] = []
    images: list[str]
    columns: int
    side: int
    parent_pid: int


def main(order_path: Path) -> None:
    """Draw the order's images into a picture next to it."""
    order = TilesOrder.model_validate_json(order_path.read_bytes())
    limits = replace(
        Limits(), memory_bytes=2 * GIB, cpu_seconds=_CPU_SECONDS, max_file_bytes=64 * MIB
    )
    confine(limits, parent_pid=order.parent_pid)
    prepare_decoder(limits)
    rows = -(-len(order.images) // order.columns)
    sheet = Image.new("RGB", (order.columns * order.side, rows * order.side))
    with _open(order, work_dir=order_path.parent, limits=limits) as source:
        wanted = set(order.images)
        entries = {
            entry.path: entry
            for entry in source.list_files(limits=limits).files
            if entry.path in wanted
        }
        for number, path in enumerate(order.images):
            if path not in entries:
                continue
            try:
                tile = draw(source.read(entries[path], limits=limits), side=order.side)
            except BadImage:
                continue
            left = number % order.columns * order.side + (order.side - tile.width) // 2
            top = number // order.columns * order.side + (order.side - tile.height) // 2
            sheet.paste(tile, (left, top))
    sheet.save(order_path.parent / PICTURE)


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
            upright = ImageOps.exif_transpose(image)
            upright.thumbnail((side, side))
            return upright.convert("RGB")
    except Exception as error:  # noqa: BLE001  a decoder may raise anything on hostile bytes
        raise BadImage("bad_image", str(error)) from None


def _open(order: TilesOrder, *, work_dir: Path, limits: Limits) -> AbstractContextManager[Source]:
    if order.kind == "folder":
        return open_folder(Path(order.path), order.below)
    return open_archive(Path(order.path), work_dir=work_dir, limits=limits)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
