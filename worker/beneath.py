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
    *folders, last = _split(name)
    place = _open_folder(root, folders)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(last, flags, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return os.fdopen(descriptor, "rb")


def has_file_beneath(root: Path, name: str) -> bool:
    """Return whether `open_beneath` can open a file."""
    try:
        open_beneath(root, name).close()
    except OSError:
        return False
    return True


def open_folder_beneath(root: Path, name: str) -> int:
    """Open a folder below another one; the caller closes the descriptor.

    Args:
        root: The upper folder; its own path is trusted.
        name: Path below it, parts joined by `/`; `.` is the upper folder itself.

    Raises:
        OSError: The folder does not exist, or part of its path is a link.
    """
    return _open_folder(root, [] if name == "." else _split(name))


def _split(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    return parts


def _open_folder(root: Path, parts: list[str]) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    place = os.open(root, flags)
    for part in parts:
        outer = place
        try:
            place = os.open(part, flags | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    return place
