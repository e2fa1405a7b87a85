"""Telemetry of all GPUs, read in separate threads.

On hardware a read goes through the GPU's firmware, and a GPU that hangs answers late or never. So
other code never reads sensors itself: it uses the latest reading, and checks its `at` if the age
matters. Each card has its own thread, so only the values of a card that hangs become old.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from redkiln.views.hardware import GpuTelemetry
from worker.hardware.facts.telemetry import read_telemetry

HISTORY_LENGTH = 600
"""Readings kept for each card: ten minutes at one a second."""

ReadCard = Callable[[Path], GpuTelemetry]


class Sampler:
    """Reads the sensors of some cards at an interval, from `start` to `stop`.

    Args:
        devices: `/sys/class/drm/card<n>/device` of each GPU, by its key; partitions share one.
        interval_seconds: Time from the start of one reading to the start of the next.
        history_length: Number of readings to keep for each card.
        read: Function that reads one card and reports its duration in `read_seconds`.
    """

    def __init__(
        self,
        devices: Mapping[str, Path],
        *,
        interval_seconds: float = 1.0,
        history_length: int = HISTORY_LENGTH,
        read: ReadCard = read_telemetry,
    ) -> None:
        self._devices = dict(devices)
        self._interval_seconds = interval_seconds
        self._read = read
        self._histories: dict[Path, deque[GpuTelemetry]] = {
            device_dir: deque(maxlen=history_length) for device_dir in self._devices.values()
        }
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start reading at once."""
        for device_dir in self._histories if not self._threads else ():
            name = f"telemetry-{device_dir.parent.name}"
            thread = threading.Thread(target=self._run, args=(device_dir,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, *, timeout_seconds: float = 5.0) -> None:
        """End the threads; one that hangs in a read ends with the process."""
        self._stopped.set()
        until = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def newest(self, key: str) -> GpuTelemetry | None:
        """Return the latest reading of a GPU; None before the first one, or without a card."""
        history = self.history(key)
        return history[-1] if history else None

    def history(self, key: str) -> list[GpuTelemetry]:
        """Return the readings of a GPU, oldest first."""
        device_dir = self._devices.get(key)
        with self._lock:
            return list(self._histories[device_dir]) if device_dir is not None else []

    @property
    def cost_seconds(self) -> float:
        """Seconds that the latest readings of all cards took."""
        with self._lock:
            newest = [history[-1] for history in self._histories.values() if history]
        return sum(reading.read_seconds or 0.0 for reading in newest)

    def sample(self) -> None:
        """Read every card once, in the caller's thread."""
        for device_dir in self._histories:
            self._sample(device_dir)

    def _sample(self, device_dir: Path) -> None:
        reading = self._read(device_dir)
        with self._lock:
            self._histories[device_dir].append(reading)

    def _run(self, device_dir: Path) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self._sample(device_dir)
            # Readings that were missed during a late answer are not repeated.
            due = max(due + self._interval_seconds, time.monotonic())
            self._stopped.wait(due - time.monotonic())
