"""Whether a running script keeps to its limits of memory, processes and disk space."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.failure import FailureCode, JobFailure
from redkiln.tasks.script import Limits
from worker.script.bounds.nameless import find_hidden, measure_nameless
from worker.script.bounds.processes import Found
from worker.script.bounds.sandbox import measure_private
from worker.script.bounds.shared_memory import SharedFiles
from worker.script.bounds.usage import Paced, measure


class LimitWatch:
    """Compares what a script uses with its limits.

    Args:
        limits: Limits of the job's spec.
        root: Root of the script's folders.
    """

    def __init__(self, limits: Limits, root: Path) -> None:
        self._limits = limits
        self._root = root
        self._disk = Paced(measure)
        self._elsewhere = Paced(_measure_elsewhere)
        self._shared = SharedFiles()
        self._hidden: set[int] = set()

    def check(self, found: Found) -> JobFailure | None:
        """Return why the script must be ended; None if it keeps to its limits.

        Args:
            found: The script's processes.
        """
        named_bytes = self._disk.look(self._root) + self._shared.look(found.pids)
        disk_bytes = named_bytes + self._elsewhere.look(found.pids)
        excess = find_excess(self._limits, found, disk_bytes=disk_bytes) or self._find_hiding(found)
        if excess is None:
            return None
        return JobFailure.of(FailureCode.OVER_LIMIT, f"the script was ended because it {excess}")

    def _find_hiding(self, found: Found) -> str | None:
        """Describe a process that hid its files at this look and the one before."""
        before, self._hidden = self._hidden, find_hidden(found.pids)
        if not before & self._hidden:
            return None
        return (
            f"has a process ({min(before & self._hidden)}) that hides its open files, so their "
            "disk space cannot be counted; a program whose file is not readable does that"
        )

    def remove_shared(self) -> None:
        """Remove the script's files in shared memory."""
        self._shared.remove()


def _measure_elsewhere(pids: Sequence[int]) -> int:
    """Return the bytes of files that have no name, or are in folders that only the script sees."""
    private = measure_private(pids)
    return sum(private.values()) + measure_nameless(pids, counted=private)


def find_excess(limits: Limits, found: Found, *, disk_bytes: int) -> str | None:
    """Describe the first limit that is exceeded, if any."""
    if limits.memory_bytes is not None and found.memory_bytes > limits.memory_bytes:
        return (
            f"used {found.memory_bytes} bytes of main memory, but script.limits.memory_bytes is "
            f"{limits.memory_bytes}"
        )
    if found.num_threads > limits.processes:
        return (
            f"had {found.num_threads} processes and threads, but script.limits.processes is "
            f"{limits.processes}"
        )
    if disk_bytes > limits.disk_bytes:
        return (
            f"used {disk_bytes} bytes of disk space, but script.limits.disk_bytes is "
            f"{limits.disk_bytes}"
        )
    return None
