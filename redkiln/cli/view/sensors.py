"""The present readings of a watched job's hardware, polled next to its event stream."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from redkiln.errors import ConnectionFailed, RedkilnError, Unavailable
from redkiln.views.metrics import TelemetrySeries

ASK_SECONDS = 3.0
MAX_POINTS = 60
STALE_SECONDS = 90.0
"""Readings are hidden when the newest is older; a long training reports one a minute."""

Ask = Callable[[int | None], Sequence[TelemetrySeries]]
"""Fetches the points newer than a time in milliseconds since 1970."""


@dataclass
class Sensors:
    """The newest value of each series, and its recent values.

    Attributes:
        courses: Last values by series name, oldest first.
    """

    clock: Callable[[], float] = time.monotonic
    courses: dict[str, list[float]] = field(default_factory=dict)
    newest_ms: int | None = None
    _heard_at: float = -float("inf")

    def take(self, series: Sequence[TelemetrySeries]) -> None:
        """Add new points."""
        courses = dict(self.courses)  # another thread may be drawing the old one
        for item in series:
            values = [value for value in item.values if value is not None]
            if item.at_ms:
                courses[item.name] = [*courses.get(item.name, []), *values][-MAX_POINTS:]
                self.newest_ms = max(self.newest_ms or 0, item.at_ms[-1])
                self._heard_at = self.clock()
        self.courses = courses

    def current(self) -> dict[str, float]:
        """Return the newest values, or nothing if they are too old."""
        if self.clock() - self._heard_at > STALE_SECONDS:
            return {}
        return {name: course[-1] for name, course in self.courses.items() if course}


class SensorFeed:
    """Keeps `sensors` up to date inside a `with` block, as long as the service supports it."""

    def __init__(self, sensors: Sensors, ask: Ask, *, pause_seconds: float = ASK_SECONDS) -> None:
        self._sensors = sensors
        self._ask = ask
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensors", daemon=True)

    def __enter__(self) -> Self:
        """Start polling."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop polling, without waiting for an outstanding answer."""
        self._stop.set()

    def _run(self) -> None:
        while self._ask_once():
            if self._stop.wait(self._pause_seconds):
                return

    def _ask_once(self) -> bool:
        """Poll once, and return whether to poll again."""
        try:
            self._sensors.take(self._ask(self._sensors.newest_ms))
        except (ConnectionFailed, Unavailable):
            return True  # the event stream already shows people that the connection is lost
        except (RedkilnError, RuntimeError):
            return False  # an older service, a job that is gone, or a closed client
        return True
