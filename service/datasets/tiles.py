"""Draws images of data sets in a limited process, and keeps the pictures for a while."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import structlog

from service.datasets.inspect.tiles import PICTURE, TilesOrder
from service.datasets.models import Dataset
from service.datasets.roots import locate
from service.errors import Unavailable
from service.settings import Settings
from service.storage import Storage

COLUMNS = 10
SIDE = 96
MOST_KEPT_BYTES = 256 * 1024**2
_WALL_SECONDS = 120
_SOURCE_DIR = Path(__file__).parents[2]
_drawing = threading.BoundedSemaphore(2)

log = structlog.get_logger(__name__)


def find_key(dataset: Dataset, images: Sequence[str]) -> str:
    """Return the digest of a picture: of the data set's content and the paths of the images."""
    text = "\n".join((str(dataset.index_sha256), str(SIDE), *images))
    return hashlib.sha256(text.encode()).hexdigest()


def read_tiles(
    settings: Settings, storage: Storage, dataset: Dataset, images: Sequence[str]
) -> bytes:
    """Return a picture of images as PNG, drawn now unless it is kept.

    Raises:
        Unavailable: The images could not be drawn in time.
        Gone: The archive has been deleted.
    """
    kept = settings.tiles_dir / f"{find_key(dataset, images)}.png"
    with _drawing:
        if not kept.exists():
            _draw(settings, storage, dataset, images, kept)
            _forget_oldest(settings.tiles_dir)
        os.utime(kept)
        return kept.read_bytes()


def _draw(
    settings: Settings, storage: Storage, dataset: Dataset, images: Sequence[str], kept: Path
) -> None:
    work_dir = Path(tempfile.mkdtemp(prefix="tiles-", dir=storage.staging_dir))
    try:
        if dataset.kind == "folder":
            located = locate(str(dataset.path), settings.data_roots)
            _run(work_dir, images, kind="folder", path=located.root, below=list(located.below))
        else:
            with storage.local_copy(str(dataset.sha256)) as path:
                _run(work_dir, images, kind="archive", path=path.absolute(), below=[])
        settings.tiles_dir.mkdir(mode=0o700, exist_ok=True)
        (work_dir / PICTURE).replace(kept)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _run(work_dir: Path, images: Sequence[str], *, kind: str, path: Path, below: list[str]) -> None:
    order = TilesOrder.model_validate(
        {
            "kind": kind,
            "path": str(path),
            "below": below,
            "images": list(images),
            "columns": min(COLUMNS, len(images)),
            "side": SIDE,
            "parent_pid": os.getpid(),
        }
    )
    order_path = (work_dir / "order.json").absolute()
    order_path.write_text(order.model_dump_json())
    environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_DIR), "LANG": "C.UTF-8"}
    child = subprocess.Popen(
        [sys.executable, "-m", "service.datasets.inspect.tiles", str(order_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work_dir,
        start_new_session=True,
    )
    try:
        _, stderr = child.communicate(timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        _, stderr = child.communicate()
    if child.returncode != 0:
        log.warning("tiles_failed", returncode=child.returncode, stderr=stderr[-2000:])
        raise Unavailable("the images could not be drawn; try again with fewer of them")


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
