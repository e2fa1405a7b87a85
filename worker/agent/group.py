"""What a process group takes of its host: processor time and memory, read from /proc.

Source: proc_pid_stat(5), proc_pid_statm(5).
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC_DIR = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Places after the name, which is in brackets and may hold anything.
_GROUP, _TIMES = 2, slice(11, 15)


@dataclass(frozen=True)
class Usage:
    """Of all processes of a group.

    Attributes:
        cpu_seconds: so far, of children that have ended too.
        memory_bytes: pages of their own, and the largest set of shared ones once.
    """

    cpu_seconds: float
    memory_bytes: int


def read_group(group: int, *, proc_dir: Path = PROC_DIR) -> Usage | None:
    """What a group takes; None when none of its processes is left."""
    times: list[float] = []
    own = shared = 0
    for folder, fields in _members(group, proc_dir):
        with suppress(OSError, ValueError, IndexError):
            resident, mapped = (int(n) for n in (folder / "statm").read_text().split()[1:3])
            times.append(sum(int(ticks) for ticks in fields[_TIMES]) / _TICKS_PER_SECOND)
            own += (resident - mapped) * _PAGE_BYTES
            shared = max(shared, mapped * _PAGE_BYTES)
    # What has ended and waits for its parent still stands there, and holds no memory.
    return Usage(sum(times), own + shared) if own + shared else None


def _members(group: int, proc_dir: Path) -> Iterator[tuple[Path, list[str]]]:
    with os.scandir(proc_dir) as entries:
        names = [entry.name for entry in entries if entry.name.isdecimal()]
    for name in names:
        folder = proc_dir / name
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        fields = text.rpartition(")")[2].split()
        if len(fields) > _TIMES.stop and fields[_GROUP] == str(group):
            yield folder, fields
