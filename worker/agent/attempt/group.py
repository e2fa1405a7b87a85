"""CPU time and memory that a process group and its descendants use, read from /proc.

A script runs in its own session, below its supervisor, so the group alone is not the job.

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
_PARENT, _GROUP, _TIMES = 1, 2, slice(11, 15)


@dataclass(frozen=True)
class Usage:
    """The usage of all processes of a group and of their descendants.

    Attributes:
        cpu_seconds: CPU time so far, including children that have ended.
        memory_bytes: The processes' private pages, plus the largest set of shared pages once.
    """

    cpu_seconds: float
    memory_bytes: int


def read_group(group: int, *, proc_dir: Path = PROC_DIR) -> Usage | None:
    """Return the usage of a group and its descendants; None if no process is left."""
    times: list[float] = []
    own = shared = 0
    for pid, fields in _find_members(group, proc_dir):
        with suppress(OSError, ValueError, IndexError):
            statm = (proc_dir / str(pid) / "statm").read_text()
            resident, mapped = (int(number) for number in statm.split()[1:3])
            times.append(sum(int(ticks) for ticks in fields[_TIMES]) / _TICKS_PER_SECOND)
            own += (resident - mapped) * _PAGE_BYTES
            shared = max(shared, mapped * _PAGE_BYTES)
    # A zombie that its parent has not reaped is still listed, but holds no memory.
    return Usage(sum(times), own + shared) if own + shared else None


def _find_members(group: int, proc_dir: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes of a group, and all descendants of these, with their `stat` fields."""
    stats = dict(_read_stats(proc_dir))
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    waiting = [pid for pid, fields in stats.items() if fields[_GROUP] == str(group)]
    found: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
            yield pid, stats[pid]


def _read_stats(proc_dir: Path) -> Iterator[tuple[int, list[str]]]:
    with os.scandir(proc_dir) as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    for pid in pids:
        try:
            text = (proc_dir / str(pid) / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        fields = text.rpartition(")")[2].split()
        if len(fields) > _TIMES.stop:
            yield pid, fields
