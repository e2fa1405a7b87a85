"""Folders that are made once and shared by many jobs of this host until they are unused for long.

Each folder's lock is a file next to it, which also contains the folder's size. A process that uses
a folder holds a shared lock until it ends; a process that makes or removes it holds an exclusive
lock.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from worker.script.bounds.usage import measure

LOCK, PARTIAL = ".lock", ".partial"
WAIT_SECONDS = 0.2
MAX_AGE_SECONDS = 30 * 24 * 3600.0
"""Time since a folder's last use after which it is removed."""


def hold_folder(
    folder: Path,
    *,
    make: Callable[[Path], None],
    is_whole: Callable[[Path], bool],
    beat: Callable[[], None],
) -> bool:
    """Make a folder unless it exists, and protect it from removal while this process lives.

    Args:
        folder: Folder whose name identifies its content.
        make: Makes the folder completely; partial content from an earlier try is removed first.
        is_whole: Returns whether the folder is complete.
        beat: Called repeatedly while another process makes the folder.

    Returns:
        Whether this call made the folder.

    Raises:
        Exception: Anything that `make` raises.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    was_made = False
    while True:
        lock = _take(folder, fcntl.LOCK_SH, beat)
        if is_whole(folder):
            os.utime(folder)
            return was_made  # the lock is released when this process ends
        os.close(lock)
        lock = _take(folder, fcntl.LOCK_EX, beat)
        try:
            if not is_whole(folder):
                _remove(folder)
                make(folder)
                _note_size(lock, measure(folder))
                was_made = True
        finally:
            os.close(lock)


def drop_unused(
    parent: Path, *, num_kept: int, max_bytes: int, max_age_seconds: float = MAX_AGE_SECONDS
) -> list[str]:
    """Remove unused folders: those beyond a number or a total size, and old ones.

    Args:
        parent: Parent of folders that were made by `hold_folder`.
        num_kept: Number of most recently used folders to keep.
        max_bytes: Largest total size of the folders to keep.
        max_age_seconds: Longest time since the last use.

    Returns:
        The names of the removed folders.
    """
    if not parent.is_dir():
        return []
    names = {path.name.removesuffix(LOCK).removesuffix(PARTIAL) for path in parent.iterdir()}
    used_at = {name: _used_at(parent / name) for name in names}
    newest = sorted(names, key=lambda name: used_at[name], reverse=True)
    oldest_at = time.time() - max_age_seconds
    kept_bytes = list(accumulate(_size_bytes(parent / name) for name in newest))
    unused = [
        name
        for number, name in enumerate(newest)
        if number >= num_kept or kept_bytes[number] > max_bytes or used_at[name] < oldest_at
    ]
    return [name for name in unused if _drop(parent / name)]


def _note_size(lock: int, size_bytes: int) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(size_bytes).encode(), 0)


def _size_bytes(folder: Path) -> int:
    """Return the size that was recorded when the folder was made; measuring it takes long."""
    try:
        return int(_lock_path(folder).read_text())
    except (FileNotFoundError, ValueError):
        return measure(folder)


def _used_at(folder: Path) -> float:
    times = [_modified_at(folder.with_name(folder.name + suffix)) for suffix in ("", PARTIAL, LOCK)]
    return times[0] or max(times)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _drop(folder: Path) -> bool:
    lock = _open(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_current(lock, folder):
            return False
        _remove(folder)
        _lock_path(folder).unlink(missing_ok=True)
    except BlockingIOError:
        return False  # another process uses it
    finally:
        os.close(lock)
    return True


def _remove(folder: Path) -> None:
    """Remove a folder so that an interrupted removal never leaves a seemingly complete one."""
    partial = folder.with_name(folder.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    if folder.exists():
        folder.rename(partial)
        shutil.rmtree(partial, ignore_errors=True)


def _take(folder: Path, kind: int, beat: Callable[[], None]) -> int:
    while True:
        lock = _open(folder)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            beat()
            time.sleep(WAIT_SECONDS)
            continue
        if _is_current(lock, folder):
            return lock
        os.close(lock)


def _is_current(lock: int, folder: Path) -> bool:
    """Return whether the lock file still exists; it is removed together with the folder."""
    try:
        return os.path.samestat(os.fstat(lock), _lock_path(folder).stat())
    except FileNotFoundError:
        return False


def _open(folder: Path) -> int:
    return os.open(_lock_path(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _lock_path(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK)
