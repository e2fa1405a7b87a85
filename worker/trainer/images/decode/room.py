"""Decides where a job's images are kept, from the memory and disk space available.

All sizes are in bytes.
"""

from pathlib import Path
from typing import Literal

DEVICE_SHARE = 0.6
"""Share of a GPU's free memory that images may take; larger sets are read from disk."""

HOST_SHARE = 0.5
"""Share of the host's free memory that one job's images may take, unless a budget is set."""

DISK_RESERVE_BYTES = 2**30
"""Space left free on the disk of the cache, for checkpoints and logs."""

Home = Literal["device", "disk"]


def choose_home(size_bytes: int, *, kind: str, free_bytes: int, budget_bytes: int) -> Home:
    """Choose where training reads pixels from.

    Args:
        size_bytes: Size of all pixels.
        kind: torch's device type; a CPU uses the host's memory.
        free_bytes: Free memory of a GPU.
        budget_bytes: Host memory for images.
    """
    limit = budget_bytes if kind == "cpu" else DEVICE_SHARE * free_bytes
    return "device" if size_bytes <= limit else "disk"


def choose_depth(*, batch_bytes: int, budget_bytes: int, wanted: int) -> int:
    """Return how many batches are read ahead: at least one, else as many as the budget allows.

    There is one buffer more than batches ahead, for the batch in use.
    """
    return max(1, min(wanted, budget_bytes // max(1, batch_bytes) - 1))


def may_be_stored(
    size_bytes: int, *, budget_bytes: int, free_bytes: int, others_bytes: int
) -> bool:
    """Return whether a set may be decoded to disk.

    Args:
        size_bytes: Size of the decoded set.
        budget_bytes: Space for all decoded sets together.
        free_bytes: Free space on the disk.
        others_bytes: Size of other decoded sets there, which can be removed.
    """
    return size_bytes <= min(budget_bytes, free_bytes + others_bytes - DISK_RESERVE_BYTES)


def detect_memory_budget(root: Path = Path("/")) -> int:
    """Return how much of this host's memory a job's images may take, from what is free now."""
    free = read_available_bytes((root / "proc/meminfo").read_text())
    group = root / "sys/fs/cgroup"
    files = [_read(group / name) for name in ("memory.max", "memory.current", "memory.stat")]
    return int(HOST_SHARE * min(free, read_group_free_bytes(*files)))


def read_available_bytes(meminfo: str) -> int:
    """Return how much memory a new process could take, according to /proc/meminfo."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def read_group_free_bytes(maximum: str | None, current: str | None, stat: str | None) -> float:
    """Return how much a control group (version 2) may still take; infinite without a limit.

    Args:
        maximum: Text of memory.max; None if there is no such file.
        current: Text of memory.current.
        stat: Text of memory.stat; cached files count as free.
    """
    if maximum is None or current is None or maximum.strip() == "max":
        return float("inf")
    cached = 0
    for line in (stat or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "active_file"):
            cached += int(value)
    return max(0, int(maximum) - int(current) + cached)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None  # no control groups, or those of version 1
