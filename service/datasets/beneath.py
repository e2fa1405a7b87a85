"""Opens what lies below a trusted folder without ever following a symbolic link.

Each component is opened from the one before it with `O_NOFOLLOW`, so neither `..` nor a link, nor
one that is put there meanwhile, leads outside.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_root(root: Path) -> int:
    """A descriptor of the trusted folder itself; links on the way to it are the owner's choice.

    Raises:
        OSError: it is not there or not a folder.
    """
    return os.open(root, _FOLDER)


def open_folder(root_fd: int, parts: Sequence[str]) -> int:
    """A new descriptor of the folder `parts` below `root_fd`.

    Raises:
        OSError: it is not there, not a folder, or a symbolic link is in the way (ELOOP, ENOTDIR).
    """
    fd = os.dup(root_fd)
    for part in parts:
        parent_fd = fd
        try:
            fd = os.open(_component(part), _FOLDER | os.O_NOFOLLOW, dir_fd=parent_fd)
        finally:
            os.close(parent_fd)
    return fd


def open_file(folder_fd: int, name: str) -> int:
    """A descriptor of a file of a folder.

    Raises:
        OSError: it is not there, or a symbolic link.
    """
    # O_NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(_component(name), flags, dir_fd=folder_fd)


def _component(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a file name")
    return name
