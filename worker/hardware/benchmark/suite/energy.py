"""Energy of a measurement: a GPU's power, read ten times a second, or a processor's own counter."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker.hardware.facts.telemetry import read_telemetry

RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
"""Energy of the processor's package in microjoules; only root may read it.

Source: Linux Documentation/power/powercap.
"""
PERIOD_SECONDS = 0.1
ReadPower = Callable[[], float | None]


class PowerMeter:
    """Adds up power while a block runs.

    Attributes:
        joules: Energy so far; None if power cannot be read.
        seconds: Time in which it was read.

    Args:
        read_power: Returns the present power in watts.
    """

    def __init__(self, read_power: ReadPower) -> None:
        self._read = read_power
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.joules: float | None = None
        self.seconds = 0.0

    def __enter__(self) -> "PowerMeter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.perf_counter()
        is_over = False
        while not is_over:
            is_over = self._stop.wait(PERIOD_SECONDS)  # the last reading ends a short block, too
            watts, now = self._read(), time.perf_counter()
            if watts is not None:
                self.joules = (self.joules or 0.0) + watts * (now - before)
                self.seconds += now - before
            before = now


def gpu_power(device_dir: Path) -> ReadPower:
    """Return a function that reads a card's power in watts."""
    return lambda: read_telemetry(device_dir).power_watts


def cpu_power(path: Path = RAPL) -> ReadPower | None:
    """Return a function that reads the processor's mean power since its last call, if it can."""
    if _read_counter(path) is None:
        return None
    last = (time.perf_counter(), _read_counter(path) or 0)

    def read() -> float | None:
        nonlocal last
        counter, now = _read_counter(path), time.perf_counter()
        if counter is None:
            return None
        joules, seconds = (counter - last[1]) / 1e6, now - last[0]
        last = (now, counter)
        return joules / seconds if joules >= 0 and seconds > 0 else None  # the counter wraps

    return read


def _read_counter(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
