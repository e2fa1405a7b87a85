"""Opens files and folders below a trusted folder without ever following a symbolic link.

Each path component is opened relative to the previous one with `O_NOFOLLOW`, so neither `..` nor a
link leads outside, not even a link that is created in the meantime.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_root(root: Path) -> int:
    """Open the trusted folder itself; links on the way to it are allowed.

    Raises:
        OSError: It does not exist or is not a folder.
    """
    return os.open(root, _FOLDER)


def open_folder(root_fd: int, parts: Sequence[str]) -> int:
    """Open the folder `parts` below `root_fd`; the caller closes the descriptor.

    Raises:
        OSError: It does not exist, is not a folder, or a link is in the way (ELOOP, ENOTDIR).
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
    """Open a file in a folder; the caller closes the descriptor.

    Raises:
        OSError: It does not exist, or is a symbolic link.
    """
    # O_NONBLOCK: opening a pipe must not wait for its other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(_component(name), flags, dir_fd=folder_fd)


def _component(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a file name")
    return name
