"""The files that this program's output goes to; they grow while others read them.

Output is redirected to a file (`> FILE`), or a program at the other end of a pipe writes it to a
file (`| tee FILE`). Programs are found in `/proc`, so only on Linux.

Source: proc_pid_fd(5).
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

FileId = tuple[int, int]
"""Device and inode."""
PROC_DIR = Path("/proc")


def find_outputs(descriptors: tuple[int, ...] = (1, 2)) -> frozenset[FileId]:
    """Return the regular files that output goes to, directly or through a pipe.

    Args:
        descriptors: File descriptors of the output.
    """
    files, pipes = set(), set()
    for descriptor in descriptors:
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue  # closed
        if stat.S_ISREG(status.st_mode):
            files.add(identify(status))
        elif stat.S_ISFIFO(status.st_mode):
            pipes.add(identify(status))
    if pipes:
        for process in _list_others():
            opened = list(_list_opened(process))
            if any(number in pipes and not is_written for number, is_written in opened):
                files |= {number for number, is_written in opened if is_written} - pipes
    return frozenset(files)


def identify(status: os.stat_result) -> FileId:
    """Return which file a status is of."""
    return status.st_dev, status.st_ino


def _list_others() -> list[Path]:
    own = str(os.getpid())
    if not PROC_DIR.is_dir():
        return []
    return [path for path in PROC_DIR.iterdir() if path.name.isdecimal() and path.name != own]


def _list_opened(process: Path) -> Iterator[tuple[FileId, bool]]:
    """Yield the files that a process has open, and whether it may write them."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return  # it has ended, or belongs to another user
    for descriptor in descriptors:
        try:
            yield identify(descriptor.stat()), bool(descriptor.lstat().st_mode & stat.S_IWUSR)
        except OSError:
            continue  # it was closed meanwhile
