"""Evidence about folders of compiled kernels: whether they are writable and intact."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from worker.hardware.doctor.evidence import KernelCache, KernelDatabase
from worker.hardware.doctor.machine import find_file_system

SUFFIXES = (".ukdb", ".kdb", ".udb", ".db", ".fdb")
HEADER = b"SQLite format 3\0"
MAX_FILES = 1000
MAX_DATABASES = 64
CHECK_SECONDS = 2.0
"""A large database takes long to check; if no damage is found in this time, it counts as intact."""
LOCK_SECONDS = 0.2


def look_at_caches(folders: Iterable[Path], *, mounts: str) -> tuple[KernelCache, ...]:
    """Examine folders and the SQLite files below them.

    Args:
        folders: Absolute paths.
        mounts: Text of `/proc/self/mountinfo`.
    """
    return tuple(_look_at(folder, mounts) for folder in folders)


def check_database(path: Path) -> KernelDatabase:
    """Run SQLite's quick check on one file, read-only."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS)
        ) as database:
            end_at = time.monotonic() + CHECK_SECONDS
            database.set_progress_handler(lambda: time.monotonic() > end_at, 100_000)
            found = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        is_cut_short = "interrupted" in str(error)
        return KernelDatabase(str(path), "ok" if is_cut_short else str(error))
    except sqlite3.DatabaseError as error:
        return KernelDatabase(str(path), str(error))
    is_sound = found is not None and found[0] == "ok"
    return KernelDatabase(str(path), "ok" if is_sound else f"malformed: {found and found[0]}")


def _look_at(folder: Path, mounts: str) -> KernelCache:
    files = list(islice(_walk(folder), MAX_FILES))
    databases = islice((path for path in files if _is_database(path)), MAX_DATABASES)
    return KernelCache(
        path=str(folder),
        exists=folder.is_dir(),
        is_writable=_may_write(folder),
        file_system=find_file_system(folder, mounts=mounts),
        num_files=len(files),
        databases=tuple(check_database(path) for path in databases),
    )


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(root) / name for name in sorted(names))


def _is_database(path: Path) -> bool:
    if path.suffix not in SUFFIXES:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(HEADER))
    except OSError:
        return False
    # A damaged header is exactly what the check must find; MIOpen's text databases end in .txt.
    return bool(start)


def _may_write(folder: Path) -> bool:
    """Return whether files can be created in a folder, or the folder itself can be created."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
