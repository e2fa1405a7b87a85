"""What is read of a run whenever it says how far it is: waiting for data, and memory."""

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
    """Of the device that trains: on a GPU by torch's allocator, on a CPU of this process.

    Attributes:
        total_bytes: what there is, or what the process may take; None when nobody says.
    """

    used_bytes: int
    peak_bytes: int
    total_bytes: int | None


class WaitMeter:
    """The share of the time between two readings in which steps waited for their batches."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._making = pace.making_seconds
        self._waiting = pace.waiting_seconds

    def read(self, seconds: float) -> float | None:
        """Since the last reading.

        Args:
            seconds: of training meanwhile; None comes back for none.
        """
        making = self._pace.making_seconds - self._making
        waiting = self._pace.waiting_seconds - self._waiting
        if seconds <= 0:
            return None
        self._making, self._waiting = self._pace.making_seconds, self._pace.waiting_seconds
        return share_waited(making=making, waiting=waiting, seconds=seconds)


def share_waited(*, making: float, waiting: float, seconds: float) -> float:
    """How much of some seconds steps waited for their batches.

    A host that waits for the device has made its batches while that computed.

    Args:
        making: seconds that the host spent on batches.
        waiting: seconds that it waited for the device.
        seconds: all of them.
    """
    if waiting > WAITS * seconds:
        return 0.0
    return min(1.0, max(0.0, making / seconds))


def read_memory(device: torch.device, *, limit_bytes: int | None = None) -> Memory | None:
    """What training takes now; None where it cannot be told.

    Args:
        device: that trains.
        limit_bytes: what the job may take of a GPU.
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
    """Most resident memory that this process has had so far; None where it cannot be told."""
    try:
        memory = read_process_memory(path.read_text(), total_bytes=None)
    except (OSError, ValueError):
        return None
    return None if memory is None else memory.peak_bytes


def read_process_memory(status: str, *, total_bytes: int | None) -> Memory | None:
    """From `/proc/<pid>/status`. Source: proc_pid_status(5)."""
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
    """The host's memory, or what a container leaves this process of it."""
    group, host = files
    sizes = []
    # There is no container, or one without a limit (`max`).
    with contextlib.suppress(OSError, ValueError):
        sizes.append(int(read(group)))
    with contextlib.suppress(OSError, ValueError):
        lines = [line for line in read(host).splitlines() if line.startswith("MemTotal:")]
        sizes += [int(line.split()[1]) * 1024 for line in lines]
    return min(sizes, default=None)
