"""Measurements for each progress report: waiting for data, and memory."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from worker.trainer.insight.pace import WAITS, Pace

PROC_STATUS = Path("/proc/self/status")
MEMORY_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/proc/meminfo"))


@dataclass(frozen=True)
class Memory:
    """Memory of the device that trains: from torch's allocator on a GPU, this process's on a CPU.

    Attributes:
        total_bytes: Memory that exists or that the process may use; None if unknown.
    """

    used_bytes: int
    peak_bytes: int
    total_bytes: int | None


class WaitMeter:
    """Measures the share of time between two readings in which steps waited for their batches."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._making = pace.making_seconds
        self._waiting = pace.waiting_seconds

    def read(self, seconds: float) -> float | None:
        """Return the share since the last reading; None if there was no training.

        Args:
            seconds: Training time since the last reading.
        """
        making = self._pace.making_seconds - self._making
        waiting = self._pace.waiting_seconds - self._waiting
        if seconds <= 0:
            return None
        self._making, self._waiting = self._pace.making_seconds, self._pace.waiting_seconds
        return share_waited(making=making, waiting=waiting, seconds=seconds)


def share_waited(*, making: float, waiting: float, seconds: float) -> float:
    """Return the share of some time in which steps waited for their batches.

    If the host waited for the device, it prepared its batches while the device computed.

    Args:
        making: Seconds that the host spent preparing batches.
        waiting: Seconds that the host waited for the device.
        seconds: Total seconds.
    """
    if waiting > WAITS * seconds:
        return 0.0
    return min(1.0, max(0.0, making / seconds))


def read_memory(device: torch.device, *, limit_bytes: int | None = None) -> Memory | None:
    """Return the memory in use by training; None if it cannot be read.

    Args:
        device: Device that trains.
        limit_bytes: GPU memory that the job may use; None for all of it.
    """
    if device.type == "cuda":
        total_bytes = int(torch.cuda.get_device_properties(device).total_memory)
        return Memory(
            torch.cuda.memory_allocated(device),
            torch.cuda.max_memory_allocated(device),
            min(total_bytes, limit_bytes or total_bytes),
        )
    try:
        return read_process_memory(PROC_STATUS.read_text(), total_bytes=find_total_bytes())
    except (OSError, ValueError):
        return None


def read_host_peak_bytes(path: Path = PROC_STATUS) -> int | None:
    """Return this process's peak resident memory; None if it cannot be read."""
    try:
        memory = read_process_memory(path.read_text(), total_bytes=None)
    except (OSError, ValueError):
        return None
    return None if memory is None else memory.peak_bytes


def read_process_memory(status: str, *, total_bytes: int | None) -> Memory | None:
    """Parse `/proc/<pid>/status`. Source: proc_pid_status(5)."""
    sizes = {
        name: int(value.split()[0]) * 1024
        for name, _, value in (line.partition(":") for line in status.splitlines())
        if name in ("VmRSS", "VmHWM")
    }
    if "VmRSS" not in sizes:
        return None
    return Memory(sizes["VmRSS"], sizes.get("VmHWM", sizes["VmRSS"]), total_bytes)


def find_total_bytes(
    read: Callable[[Path], str] = Path.read_text, *, files: tuple[Path, Path] = MEMORY_FILES
) -> int | None:
    """Return the host's memory, or a container's limit if that is lower."""
    group, host = files
    sizes = []
    # The file is missing without a container, and says `max` without a limit.
    with contextlib.suppress(OSError, ValueError):
        sizes.append(int(read(group)))
    with contextlib.suppress(OSError, ValueError):
        lines = [line for line in read(host).splitlines() if line.startswith("MemTotal:")]
        sizes += [int(line.split()[1]) * 1024 for line in lines]
    return min(sizes, default=None)
