"""Draws images of data sets in a limited process, and keeps the pictures for a while."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redkiln.tables import IMAGE_TASKS
from service.datasets.child import run_child
from service.datasets.inspect.tiles import PICTURE, TileImage, TilesOrder
from service.datasets.models import Dataset
from service.datasets.roots import locate
from service.settings import Settings
from service.storage import Storage
from service.turns import Turns

MODULE = "service.datasets.inspect.tiles"
COLUMNS = 10
SIDE = 96
BOX_SIDE = 192
"""Side of the tiles of images with boxes or masks, which would be hard to see on smaller ones."""
MOST_KEPT_BYTES = 256 * 1024**2
_drawing = Turns("pictures are being drawn")


def find_key(dataset: Dataset, images: Sequence[TileImage]) -> str:
    """Return the digest of a picture: of the data set's content and the places of the images."""
    text = "\n".join((str(dataset.index_sha256), str(find_side(dataset)), *map(str, images)))
    return hashlib.sha256(text.encode()).hexdigest()


def find_side(dataset: Dataset) -> int:
    """Return the side of a data set's tiles in pixels."""
    return BOX_SIDE if dataset.task in IMAGE_TASKS else SIDE


def count_columns(dataset: Dataset, num: int) -> int:
    """Return how many tiles are in a row of a picture of so many images."""
    return min(COLUMNS * SIDE // find_side(dataset), num)


def read_tiles(
    settings: Settings, storage: Storage, dataset: Dataset, images: Sequence[TileImage]
) -> bytes:
    """Return a picture of images as PNG, drawn now unless it is kept.

    Raises:
        Unavailable: The images could not be drawn in time, or too many others are being drawn.
        Gone: The archive has been deleted.
    """
    kept = settings.tiles_dir / f"{find_key(dataset, images)}.png"
    with _drawing.take():
        if not kept.exists():
            _draw(settings, storage, dataset, images, kept)
            _forget_oldest(settings.tiles_dir)
        os.utime(kept)
        return kept.read_bytes()


def _draw(
    settings: Settings, storage: Storage, dataset: Dataset, images: Sequence[TileImage], kept: Path
) -> None:
    work_dir = Path(tempfile.mkdtemp(prefix="tiles-", dir=storage.work_dir))
    shape = {"columns": count_columns(dataset, len(images)), "side": find_side(dataset)}
    try:
        if dataset.kind == "folder":
            located = locate(str(dataset.path), settings.data_roots)
            place = {"kind": "folder", "path": str(located.root), "below": list(located.below)}
            _run(work_dir, images, {**place, **shape})
        else:
            with storage.local_copy(str(dataset.sha256)) as path:
                _run(work_dir, images, {"kind": "archive", "path": str(path.absolute()), **shape})
        settings.tiles_dir.mkdir(mode=0o700, exist_ok=True)
        (work_dir / PICTURE).replace(kept)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _run(work_dir: Path, images: Sequence[TileImage], order_fields: dict[str, Any]) -> None:
    order = TilesOrder.model_validate(
        {"images": list(images), "parent_pid": os.getpid(), **order_fields}
    )
    run_child(MODULE, order, work_dir=work_dir, what="the images could not be drawn")


def _forget_oldest(folder: Path) -> None:
    """Delete the pictures that were read longest ago, beyond the most bytes to keep."""
    files = sorted(
        ((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob("*.png")),
        reverse=True,
    )
    total = 0
    for _, size, path in files:
        total += size
        if total > MOST_KEPT_BYTES:
            path.unlink(missing_ok=True)
