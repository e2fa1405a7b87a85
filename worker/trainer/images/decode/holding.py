"""Keeps a folder of the cache from being removed while this or another process reads it."""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path


class Hold:
    """Keeps a folder for as long as this object, or the process, lives.

    Raises:
        FileNotFoundError: the folder does not exist.
    """

    def __init__(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        # A file system without locks cannot record readers; the folder is used without one.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextlib.contextmanager
def unheld(folder: Path) -> Iterator[bool]:
    """Yield whether nobody holds a folder; if so, nobody can take hold of it inside the block."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
