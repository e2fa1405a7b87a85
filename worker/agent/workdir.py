"""The worker's folder: one agent at a time, a stable identity, and what attempts left behind."""

import fcntl
import secrets
import shutil
import time
from pathlib import Path
from typing import IO


class FolderInUse(Exception):  # noqa: N818  named by what is the matter
    """Another agent works in this folder."""


def lock_worker_dir(worker_dir: Path) -> IO[str]:
    """Take the folder for this process; the lock ends with it, however it ends.

    Raises:
        FolderInUse: another agent has it.
    """
    lock = (worker_dir / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise FolderInUse(
            f"another worker runs in {worker_dir}; stop it, or give this one a folder of its own "
            "with REDKILN_WORKER_DIR"
        ) from None
    return lock


def load_worker_id(worker_dir: Path) -> str:
    """This worker's id, made at the first start and kept as long as the folder is.

    Raises:
        OSError: it can neither be read nor written.
    """
    path = worker_dir / "worker-id"
    if not path.exists():
        path.write_text(f"wrk_{secrets.token_hex(8)}\n")
    return path.read_text().strip()


def drop_old_jobs(jobs_dir: Path, *, max_age_seconds: float) -> None:
    """Remove job directories of attempts that ended long ago and were never reported."""
    for path in jobs_dir.iterdir():
        if time.time() - path.stat().st_mtime > max_age_seconds:
            shutil.rmtree(path, ignore_errors=True)
