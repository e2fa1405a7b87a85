"""Where a job's images lie: decisions on the memory and the disk that there are.

Sizes are bytes throughout.
"""

from pathlib import Path
from typing import Literal

DEVICE_SHARE = 0.6
"""Of a GPU's free memory that images may take; larger sets are read from the disk."""

HOST_SHARE = 0.5
"""Of the host's free memory that the images of one job may take, where nothing else is set."""

DISK_RESERVE_BYTES = 2**30
"""Left free on the disk of the cache: checkpoints and logs lie there too."""

Home = Literal["device", "disk"]


def choose_home(size_bytes: int, *, kind: str, free_bytes: int, budget_bytes: int) -> Home:
    """Where training takes pixels from.

    Args:
        size_bytes: of all pixels.
        kind: torch's device type; a CPU's memory is the host's.
        free_bytes: of a GPU's memory.
        budget_bytes: of the host's memory.
    """
    limit = budget_bytes if kind == "cpu" else DEVICE_SHARE * free_bytes
    return "device" if size_bytes <= limit else "disk"


def choose_depth(*, batch_bytes: int, budget_bytes: int, wanted: int) -> int:
    """How many batches are read ahead: the buffers take no more than the budget, if they can.

    There is one buffer more than batches ahead, for the one in use.
    """
    return max(1, min(wanted, budget_bytes // max(1, batch_bytes) - 1))


def may_be_stored(
    size_bytes: int, *, budget_bytes: int, free_bytes: int, others_bytes: int
) -> bool:
    """Whether a set may be decoded onto the disk.

    Args:
        size_bytes: that it takes decoded.
        budget_bytes: of all decoded sets together.
        free_bytes: of the disk.
        others_bytes: other decoded sets there, which can be removed.
    """
    return size_bytes <= min(budget_bytes, free_bytes + others_bytes - DISK_RESERVE_BYTES)


def detect_memory_budget(root: Path = Path("/")) -> int:
    """What the images of a job may take of this host's memory, by what is free now."""
    free = read_available_bytes((root / "proc/meminfo").read_text())
    group = root / "sys/fs/cgroup"
    files = [_read(group / name) for name in ("memory.max", "memory.current", "memory.stat")]
    return int(HOST_SHARE * min(free, read_group_free_bytes(*files)))


def read_available_bytes(meminfo: str) -> int:
    """What /proc/meminfo says a new process could take."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def read_group_free_bytes(maximum: str | None, current: str | None, stat: str | None) -> float:
    """What a control group (version 2) may still take; infinite where it has no limit.

    Args:
        maximum: the text of memory.max; None where there is no such file.
        current: of memory.current.
        stat: of memory.stat; cached files give way.
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
