"""Files without a name that a script's processes use: removed ones, and those only in memory.

A file that was removed keeps its space while a process has it open or has mapped it, and one made
by `memfd_create` never had a name.

Source: proc_pid_fd(5), proc_pid_maps(5), memfd_create(2).
"""

import os
import stat
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from worker.script.bounds.processes import PROC_DIR
from worker.script.bounds.usage import BLOCK_BYTES

REMOVED = " (deleted)"
SHARED_PAGES = "/dev/zero" + REMOVED
"""Anonymous memory that processes share: main memory, not a file."""

Identity = tuple[int, int]
"""Device and inode of a file."""


def measure_nameless(
    pids: Iterable[int], *, counted: Container[int] = (), proc_dir: Path = PROC_DIR
) -> int:
    """Return the bytes of all files without a name that processes have open or have mapped.

    A file that is only mapped counts as far as it is mapped, because its blocks cannot be asked.

    Args:
        pids: The processes.
        counted: Devices whose files are left out.
        proc_dir: Folder in which the kernel shows processes.
    """
    opened: dict[Identity, int] = {}
    mapped: dict[Identity, int] = {}
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile, or hides them; see `find_hidden`
            opened |= _list_open(proc_dir / str(pid) / "fd")
        with suppress(OSError):
            for identity, end in _list_mapped(proc_dir / str(pid) / "maps"):
                mapped[identity] = max(mapped.get(identity, 0), end)
    found = (mapped | opened).items()
    return sum(size_bytes for (device, _), size_bytes in found if device not in counted)


def find_hidden(pids: Iterable[int], *, proc_dir: Path = PROC_DIR) -> set[int]:
    """Return the processes that do not show which files they have open."""
    hidden = set()
    for pid in pids:
        try:
            os.scandir(proc_dir / str(pid) / "fd").close()
        except PermissionError:
            hidden.add(pid)
        except OSError:
            continue  # it has ended meanwhile
    return hidden


def _list_open(folder: Path) -> dict[Identity, int]:
    found = {}
    with os.scandir(folder) as descriptors:
        for entry in descriptors:
            with suppress(OSError):  # it was closed meanwhile
                status = entry.stat()
                if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                    found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
    return found


def _list_mapped(maps: Path) -> Iterator[tuple[Identity, int]]:
    """Yield each mapped file without a name, and the offset where a mapping of it ends."""
    for line in maps.read_text(errors="replace").splitlines():
        if line.endswith(REMOVED):
            addresses, _, offset, device, inode, name = line.split(maxsplit=5)
            if name != SHARED_PAGES:
                start, end = (int(number, 16) for number in addresses.split("-"))
                major, minor = (int(number, 16) for number in device.split(":"))
                yield (os.makedev(major, minor), int(inode)), int(offset, 16) + end - start
