"""Keeping a folder of the cache from being removed while it is read, in this process or another."""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path


class Hold:
    """Keeps a folder for as long as this object lives; the end of the process ends it too.

    Raises:
        FileNotFoundError: the folder is not there.
    """

    def __init__(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        # File systems without locks do not say who reads; the folder is used all the same.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextlib.contextmanager
def unheld(folder: Path) -> Iterator[bool]:
    """Whether nobody holds a folder; if so, nobody begins to within this."""
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
