"""How often the kernel has killed a process because memory ran out."""

from pathlib import Path


def count_oom_kills(path: Path = Path("/proc/vmstat")) -> int:
    """Return how many processes the kernel has killed for memory since it started."""
    for line in path.read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
