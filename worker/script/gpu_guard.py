"""Whether a script that asked for a GPU uses it: by the driver's files, and by torch's counters.

A program that quietly falls back to the CPU holds a GPU for hours and trains a hundred times
slower than it could. What is looked at needs no change to the script: memory and busy time that
the driver's files tell of its GPUs, and what torch says it has allocated (`worker.hardware.hook`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redkiln.hardware import GpuTelemetry
from redkiln.tasks.script import Guard
from worker.hardware.telemetry import read_telemetry

LOOK_SECONDS = 2.0
MEMORY_STEP_BYTES = 64 * 1024**2
"""More than that beyond what was there before is somebody's work."""
BUSY_RATIO = 0.05
TORCH_ALONE = "torch has taken no memory of it (the driver does not tell what others did)"

ReadGpus = Callable[[], Sequence[GpuTelemetry]]


@dataclass
class GpuGuard:
    """Looks until the GPU was used, or the time is up.

    Attributes:
        is_used: whether it was.
        is_sure: whether the driver has told of it; torch knows of its own memory alone.
    """

    guard: Guard
    read: ReadGpus
    clock: Callable[[], float] = time.monotonic
    is_used: bool = False
    is_sure: bool = False
    _began_at: float = field(init=False)
    _looked_at: float = -float("inf")
    _least_bytes: list[int | None] = field(default_factory=list)
    _is_told: bool = False

    def __post_init__(self) -> None:
        self._began_at = self.clock()

    def look(self, *, torch_bytes: int | None) -> str | None:
        """What to say of a GPU that was left alone for too long, once; None otherwise.

        Args:
            torch_bytes: of GPU memory that torch has said it took; None where there is no torch.
        """
        now = self.clock()
        if self.is_used or self._is_told or now - self._looked_at < LOOK_SECONDS:
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
        self._is_told = True
        if not self.is_sure and torch_bytes is None:
            return None
        seen = "no memory was taken and it was not busy" if self.is_sure else TORCH_ALONE
        return (
            f"the script asked for a GPU and has not used it in its first {self.guard.minutes:g} "
            f"minutes: {seen}. Move model and data there (.to('cuda')), ask for "
            "resources.device: any, or set script.guard.action to warn"
        )

    def _was_used(self, readings: Sequence[GpuTelemetry]) -> bool:
        self._least_bytes += [None] * (len(readings) - len(self._least_bytes))
        for place, reading in enumerate(readings):
            if (reading.busy_ratio or 0.0) > BUSY_RATIO:
                return True
            used = reading.vram_used_bytes
            if used is None:
                continue
            least = self._least_bytes[place]
            self._least_bytes[place] = used if least is None else min(least, used)
            if least is not None and used - least > MEMORY_STEP_BYTES:
                return True
        return False


def read_sensors(folders: Iterable[str]) -> ReadGpus:
    """What reads the driver's files on GPUs.

    Args:
        folders: of the GPUs (`worker.hardware.telemetry`).
    """
    paths = [Path(folder) for folder in folders]

    def read() -> Sequence[GpuTelemetry]:
        return [read_telemetry(path) for path in paths]

    return read
