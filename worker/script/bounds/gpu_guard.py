"""Whether a script that asked for a GPU uses it, from the driver's files and torch's counters.

A program that silently falls back to the CPU occupies a GPU for hours and trains a hundred times
slower than it could. Checking needs no change to the script: the driver's files report memory and
busy time of its GPUs, and torch's hook reports what it has allocated (`worker.hardware.hook`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redkiln.tasks.script import Guard
from redkiln.views.hardware import GpuTelemetry
from worker.hardware.facts.telemetry import read_telemetry

LOOK_SECONDS = 2.0
MEMORY_STEP_BYTES = 64 * 1024**2
"""More memory than this above the lowest reading means that a program uses the GPU."""
BUSY_RATIO = 0.05
TORCH_ALONE = "torch has allocated no memory on it (the driver does not report other programs)"

ReadGpus = Callable[[], Sequence[GpuTelemetry]]


@dataclass
class GpuGuard:
    """Watches until the GPU is used or the time is up.

    Attributes:
        is_used: Whether the GPU was used.
        is_sure: Whether the driver reports its use; torch knows only about its own memory.
    """

    guard: Guard
    read: ReadGpus
    clock: Callable[[], float] = time.monotonic
    is_used: bool = False
    is_sure: bool = False
    _began_at: float = field(init=False)
    _looked_at: float = -float("inf")
    _least_bytes: list[int | None] = field(default_factory=list)
    _has_warned: bool = False

    def __post_init__(self) -> None:
        self._began_at = self.clock()

    def look(self, *, torch_bytes: int | None) -> str | None:
        """Return, once, a message about a GPU that was unused for too long; otherwise None.

        Args:
            torch_bytes: Bytes of GPU memory that torch reported; None without torch.
        """
        now = self.clock()
        if self.is_used or self._has_warned or now - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = now
        readings = self.read()
        self.is_sure = self.is_sure or any(
            reading.vram_used_bytes is not None or reading.busy_ratio is not None
            for reading in readings
        )
        self.is_used = bool(torch_bytes) or self._was_used(readings)
        if self.is_used or now - self._began_at < self.guard.minutes * 60:
            return None
        self._has_warned = True
        if not self.is_sure and torch_bytes is None:
            return None
        seen = "none of its memory was used and it was not busy" if self.is_sure else TORCH_ALONE
        return (
            f"the script asked for a GPU but has not used it in its first {self.guard.minutes:g} "
            f"minutes: {seen}. Move the model and the data to the GPU (.to('cuda')), set "
            "resources.device to any, or set script.guard.action to warn"
        )

    def _was_used(self, readings: Sequence[GpuTelemetry]) -> bool:
        self._least_bytes += [None] * (len(readings) - len(self._least_bytes))
        for index, reading in enumerate(readings):
            if (reading.busy_ratio or 0.0) > BUSY_RATIO:
                return True
            used = reading.vram_used_bytes
            if used is None:
                continue
            least = self._least_bytes[index]
            self._least_bytes[index] = used if least is None else min(least, used)
            if least is not None and used - least > MEMORY_STEP_BYTES:
                return True
        return False


def read_sensors(folders: Iterable[str]) -> ReadGpus:
    """Build a function that reads the driver's files for GPUs.

    Args:
        folders: Folders of the GPUs' files (`worker.hardware.facts.telemetry`).
    """
    paths = [Path(folder) for folder in folders]

    def read() -> Sequence[GpuTelemetry]:
        return [read_telemetry(path) for path in paths]

    return read
