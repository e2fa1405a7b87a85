"""An attempt's telemetry until the service has it: bounded, and sparser for older attempts."""

import threading
from collections import deque
from collections.abc import Mapping

from redkiln.protocol import TelemetryPoint

FINEST_MS = 1000
COARSEST_MS = 60_000
FINE_POINTS = 600
"""A point covers 1/600 of the attempt's age, and at least a second: 600 points in the first ten
minutes and then about 600 for each further doubling, even if training lasts for days."""
KEPT_POINTS = 4096
"""Points kept of each series while the service is unreachable: over an hour at one a second."""

Telemetry = dict[str, list[TelemetryPoint]]


def choose_period_ms(age_ms: int) -> int:
    """Return the time that one point covers in an attempt of this age."""
    return min(max(FINEST_MS, age_ms // FINE_POINTS), COARSEST_MS)


class SeriesBuffer:
    """Averages readings over a growing period and keeps the points until they are sent.

    A series of bytes keeps the highest reading of each period, every other series the mean.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, deque[TelemetryPoint]] = {}
        self._window: dict[str, list[float]] = {}
        self._began_ms: int | None = None
        self._due_ms = 0

    def add(self, readings: Mapping[str, float], *, at_ms: int) -> None:
        """Add one reading for each sensor in `readings`."""
        with self._lock:
            if self._began_ms is None:
                self._began_ms = self._due_ms = at_ms
            for name, value in readings.items():
                self._window.setdefault(name, []).append(value)
            # A reading just before the end of a period closes it; it does not begin the next one.
            if at_ms + FINEST_MS // 2 >= self._due_ms:
                self._close_window(at_ms)
                self._due_ms = at_ms + choose_period_ms(at_ms - self._began_ms)

    def peek(self, max_points: int = FINE_POINTS) -> Telemetry:
        """Return the oldest waiting points, at most `max_points` of each series."""
        with self._lock:
            return {
                name: list(points)[:max_points] for name, points in self._points.items() if points
            }

    def drop(self, sent: Telemetry) -> None:
        """Remove points that have arrived."""
        with self._lock:
            for name, points in sent.items():
                waiting = self._points[name]
                while waiting and waiting[0][0] <= points[-1][0]:
                    waiting.popleft()

    def _close_window(self, at_ms: int) -> None:
        for name, values in self._window.items():
            value = max(values) if name.endswith("_bytes") else sum(values) / len(values)
            self._points.setdefault(name, deque(maxlen=KEPT_POINTS)).append((at_ms, value))
        self._window.clear()
