"""The worker's folder: used by one agent at a time, with the worker's id and old job folders."""

import fcntl
import secrets
import shutil
import time
from pathlib import Path
from typing import IO

import structlog

from worker.script.bounds.control_group import end_old_groups
from worker.script.bounds.processes import end_strays

log = structlog.get_logger(__name__)

MOST_OLD_JOBS = 3
"""Kept folders of attempts that an earlier agent did not report; each may hold checkpoints."""


class FolderInUse(Exception):  # noqa: N818  # the name states the fault
    """Another agent uses this folder."""


def lock_worker_dir(worker_dir: Path) -> IO[str]:
    """Lock the folder for this process; the lock ends with the process, even if it crashes.

    Raises:
        FolderInUse: Another agent holds the lock.
    """
    lock = (worker_dir / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise FolderInUse(
            f"another worker uses {worker_dir}; stop it, or set REDKILN_WORKER_DIR to a separate "
            "folder for this one"
        ) from None
    return lock


def load_worker_id(worker_dir: Path) -> str:
    """Return this worker's id, which is created at the first start and kept with the folder.

    Raises:
        OSError: The id can neither be read nor written.
    """
    path = worker_dir / "worker-id"
    if not path.exists():
        path.write_text(f"wrk_{secrets.token_hex(8)}\n")
    return path.read_text().strip()


def end_old_processes(jobs_dir: Path) -> None:
    """End what users' code has left running because an earlier agent was killed."""
    root = jobs_dir.resolve()
    num_ended = end_old_groups(root) + end_strays(root)
    if num_ended:
        log.warning("ended processes that an earlier agent's jobs left", num_processes=num_ended)


def drop_old_jobs(jobs_dir: Path, *, max_age_seconds: float) -> None:
    """Remove folders of unreported attempts, except for the newest few that are not old.

    Nothing reads them but people: a repeated attempt starts from what the service has.
    """
    newest_first = sorted(jobs_dir.iterdir(), key=lambda path: -path.stat().st_mtime)
    for place, path in enumerate(newest_first):
        if place >= MOST_OLD_JOBS or time.time() - path.stat().st_mtime > max_age_seconds:
            shutil.rmtree(path, ignore_errors=True)


class FreeSpace:
    """The free space of a folder's disk; says in the log when it falls short and when it is back.

    Args:
        least_bytes: Free space that is enough.
    """

    def __init__(self, folder: Path, *, least_bytes: int) -> None:
        self._folder = folder
        self._least_bytes = least_bytes
        self._was_enough = True

    def is_enough(self) -> bool:
        """Return whether the disk has enough free space now."""
        free_bytes = shutil.disk_usage(self._folder).free
        is_enough = free_bytes >= self._least_bytes
        if is_enough != self._was_enough:
            self._was_enough = is_enough
            facts = {"folder": str(self._folder), "free_bytes": free_bytes}
            if is_enough:
                log.info("the disk has free space again; taking jobs", **facts)
            else:
                log.warning(
                    "no job is taken: the worker's disk is almost full; free some space, or lower "
                    "REDKILN_WORKER_MIN_FREE_BYTES",
                    least_bytes=self._least_bytes,
                    **facts,
                )
        return is_enough
