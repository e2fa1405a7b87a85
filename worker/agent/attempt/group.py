"""CPU time and memory that a process group uses, read from /proc.

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

# Fields after the name, which is in brackets and may contain anything.
_GROUP, _TIMES = 2, slice(11, 15)


@dataclass(frozen=True)
class Usage:
    """The usage of all processes of a group.

    Attributes:
        cpu_seconds: CPU time so far, including children that have ended.
        memory_bytes: The processes' private pages, plus the largest set of shared pages once.
    """

    cpu_seconds: float
    memory_bytes: int


def read_group(group: int, *, proc_dir: Path = PROC_DIR) -> Usage | None:
    """Return a group's usage; None if none of its processes is left."""
    times: list[float] = []
    own = shared = 0
    for folder, fields in _members(group, proc_dir):
        with suppress(OSError, ValueError, IndexError):
            resident, mapped = (int(n) for n in (folder / "statm").read_text().split()[1:3])
            times.append(sum(int(ticks) for ticks in fields[_TIMES]) / _TICKS_PER_SECOND)
            own += (resident - mapped) * _PAGE_BYTES
            shared = max(shared, mapped * _PAGE_BYTES)
    # A zombie that its parent has not reaped is still listed, but holds no memory.
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
