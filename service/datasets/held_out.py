"""Collects the test split of a data set in a limited process, as files that anyone can read."""

import io
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redkiln.tables import TABLE_TASKS
from redkiln.views.dataset import DatasetStatus
from service.datasets.child import run_child
from service.datasets.inspect.held_out import (
    MOST_BYTES,
    REFUSAL,
    RESULT,
    HeldOutOrder,
    Refusal,
)
from service.datasets.models import Dataset
from service.datasets.roots import locate
from service.datasets.samples import TASKS
from service.errors import Gone, NotFound, Unavailable, Unprocessable
from service.settings import Settings
from service.storage import Storage, require_free

MODULE = "service.datasets.inspect.held_out"
_collecting = threading.BoundedSemaphore(2)
MOST_SENT = 8
"""Test splits that are sent at once: a slow reader keeps up to 4 GiB on the disk."""
_sending = threading.BoundedSemaphore(MOST_SENT)
_WAIT_SECONDS = 2.0
"""Time that a request waits for others: each waiting one holds a thread of the server."""


class SentFile(io.FileIO):
    """A file that says when it is closed, which happens once, also if nobody has read it.

    Args:
        fd: Descriptor of the file.
        on_close: Called when it is closed.
    """

    def __init__(self, fd: int, *, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        super().__init__(fd, "rb")

    def close(self) -> None:
        """Close the file."""
        was_closed = self.closed
        super().close()
        if not was_closed:
            self._on_close()


def collect_test_split(settings: Settings, storage: Storage, dataset: Dataset) -> SentFile:
    """Return a zip with the test samples as an open file, which ends when it is closed.

    Raises:
        NotFound: The data set is not ready, or is built in.
        Unavailable: The samples could not be collected in time, or others are being collected.
        StorageFull: Too little disk is free.
        Gone: The archive has been deleted, or the folder has changed.
        Unprocessable: The split is too large.
    """
    is_ready = dataset.status == DatasetStatus.READY and dataset.index_sha256 is not None
    if not is_ready or dataset.task not in (*TABLE_TASKS, *TASKS):
        message = (
            "test samples can only be downloaded if the data set was uploaded or registered, and "
            "is ready; the worker creates built-in ones"
        )
        raise NotFound(message, code="no_samples")
    require_free(settings.state_dir, settings.min_free_bytes + MOST_BYTES)
    if not _collecting.acquire(timeout=_WAIT_SECONDS):
        message = "other test splits are being collected; try again"
        raise Unavailable(message, retry_after_seconds=15)
    if not _sending.acquire(blocking=False):
        _collecting.release()
        message = f"{MOST_SENT} test splits are being downloaded; try again"
        raise Unavailable(message, retry_after_seconds=60)
    try:
        return SentFile(_collect_file(settings, storage, dataset), on_close=_sending.release)
    except BaseException:
        _sending.release()
        raise
    finally:
        _collecting.release()


def _collect_file(settings: Settings, storage: Storage, dataset: Dataset) -> int:
    """Return a descriptor of the zip, which no longer has a name."""
    work_dir = Path(tempfile.mkdtemp(prefix="held-out-", dir=storage.work_dir))
    try:
        with storage.local_copy(str(dataset.index_sha256)) as index_path:
            _collect(settings, storage, dataset, index_path=index_path, work_dir=work_dir)
        _raise_if_refused(work_dir / REFUSAL)
        return os.open(work_dir / RESULT, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _raise_if_refused(path: Path) -> None:
    if not path.exists():
        return
    refusal = Refusal.model_validate_json(path.read_bytes())
    kind = Gone if refusal.code == "dataset_changed" else Unprocessable
    raise kind(refusal.message, code=refusal.code)


def _collect(
    settings: Settings, storage: Storage, dataset: Dataset, *, index_path: Path, work_dir: Path
) -> None:
    def run(**place: Any) -> None:
        order = HeldOutOrder(index_path=str(index_path.absolute()), parent_pid=os.getpid(), **place)
        run_child(MODULE, order, work_dir=work_dir, what="the samples could not be collected")

    if dataset.task in TABLE_TASKS:
        run(kind="table")
    elif dataset.kind == "folder":
        located = locate(str(dataset.path), settings.data_roots)
        run(kind="folder", path=str(located.root), below=list(located.below))
    else:
        with storage.local_copy(str(dataset.sha256)) as path:
            run(kind="archive", path=str(path.absolute()))
