"""Opens files of a folder that somebody else writes, without being led anywhere else.

A path is walked part by part; none of it may be a link, and what stands at its end must be a plain
file. A pipe is not waited for.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_beneath(root: Path, name: str) -> BufferedReader:
    """A file below a folder, for reading.

    Args:
        root: of the folder; its own path is trusted.
        name: parts joined by `/`.

    Raises:
        OSError: it is not there, a part of its path is a link, or it is no plain file.
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
        raise OSError(errno.EINVAL, "no plain file", name)
    return os.fdopen(descriptor, "rb")
