"""A file that keeps some room on the disk, so that a full disk can still be emptied.

A deletion writes, too: without free room, the database could not even delete.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

import structlog

log = structlog.get_logger()

RESERVE_BYTES = 16 * 1024**2
"""Enough for a start and for deletions of many thousand rows."""


class Reserve:
    """The file, which exists while the disk has room for it.

    Args:
        path: Its path, on the disk of the database.
        size_bytes: Its size.
    """

    def __init__(self, path: Path, *, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._lock = threading.Lock()

    def release(self) -> bool:
        """Free the room for the next write; return whether there was any."""
        with self._lock:
            try:
                self._path.unlink()
            except FileNotFoundError:
                return False
        log.warning("reserve_released", advice="the disk is full; delete jobs or data sets")
        return True

    def release_if_full(self) -> bool:
        """Give the room away if the disk has less than this free, such as before a start."""
        status = os.statvfs(self._path.parent)
        is_full = status.f_bavail * status.f_frsize < self._size_bytes
        return is_full and self.release()

    def restore(self) -> bool:
        """Take the room if the file is missing; leave at least as much free for others.

        Returns:
            Whether the file is complete now.
        """
        with self._lock:
            if self._path.exists():
                return True
            status = os.statvfs(self._path.parent)
            if status.f_bavail * status.f_frsize < 2 * self._size_bytes:
                return False
            return self._take()

    def _take(self) -> bool:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, self._size_bytes)
        except OSError:  # another writer was faster, or the file system cannot reserve
            with suppress(FileNotFoundError):
                self._path.unlink()
            return False
        finally:
            os.close(fd)
        return True
