"""Small disks that a test can fill."""

import os
import subprocess
from contextlib import contextmanager, suppress

ROOM = "128m"
"""Size of the disk that a test fills."""


@contextmanager
def small_disk(folder, *, size=ROOM):
    """A file system of a fixed size; only root can mount it."""
    if os.getuid() != 0:
        yield False
        return
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=False
    )
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """Write until the disk has no room, whatever others write meanwhile."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
