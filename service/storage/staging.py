"""The folder of files that are not complete yet, and what crashes leave in it.

Each process that stores anything has its own folder in the staging folder and keeps it locked while
it lives. The lock ends with the process, however that dies, so a folder without one is a
leftover, whatever its age.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def open_own_folder(staging_dir: Path) -> Path:
    """Create a folder for this process and lock it until the process ends."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix="process-", dir=staging_dir))
        with suppress(FileNotFoundError):  # another process took it for a leftover
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if folder.is_dir():
                return folder
            os.close(descriptor)


def sweep(staging_dir: Path) -> int:
    """Remove everything that belongs to no living process; return the number of entries."""
    return sum(_remove_if_left(path) for path in staging_dir.iterdir())


def _remove_if_left(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # in use, or on a file system that locks no folders
        return False
    else:
        shutil.rmtree(path, ignore_errors=True)  # a child may still write: the next sweep follows
        return not path.exists()
    finally:
        os.close(descriptor)
