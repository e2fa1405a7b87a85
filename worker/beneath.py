"""Opens files in a folder that another user may write to, without following links out of it.

A path is walked part by part; no part may be a link, and the last one must be a regular file.
Opening a pipe does not block.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_beneath(root: Path, name: str) -> BufferedReader:
    """Open a file below a folder for reading.

    Args:
        root: The folder; its own path is trusted.
        name: Path below it, parts joined by `/`.

    Raises:
        OSError: the file does not exist, part of its path is a link, or it is not a regular file.
    """
    *folders, last = name.split("/")
    if not last or any(part in ("", ".", "..") for part in (*folders, last)):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=place)
            os.close(place)
            place = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(last, flags, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return os.fdopen(descriptor, "rb")
