"""What a watched job's hardware does now, asked for beside its stream."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from redkiln.errors import ConnectionFailed, RedkilnError, Unavailable
from redkiln.job import TelemetrySeries

ASK_SECONDS = 3.0
MAX_POINTS = 60
STALE_SECONDS = 90.0
"""Without a new point for so long nothing is shown; of long trainings one comes once a minute."""

Ask = Callable[[int | None], Sequence[TelemetrySeries]]
"""Asks for what is newer than a time in milliseconds since 1970."""


@dataclass
class Sensors:
    """The newest value of each series, and its course.

    Attributes:
        courses: the last values by name, oldest first.
    """

    clock: Callable[[], float] = time.monotonic
    courses: dict[str, list[float]] = field(default_factory=dict)
    newest_ms: int | None = None
    _heard_at: float = -float("inf")

    def take(self, series: Sequence[TelemetrySeries]) -> None:
        """Add what is new."""
        courses = dict(self.courses)  # another thread may be drawing the old ones
        for item in series:
            values = [value for value in item.values if value is not None]
            if item.at_ms:
                courses[item.name] = [*courses.get(item.name, []), *values][-MAX_POINTS:]
                self.newest_ms = max(self.newest_ms or 0, item.at_ms[-1])
                self._heard_at = self.clock()
        self.courses = courses

    def current(self) -> dict[str, float]:
        """The newest values; none when they are too old to be called so."""
        if self.clock() - self._heard_at > STALE_SECONDS:
            return {}
        return {name: course[-1] for name, course in self.courses.items() if course}


class SensorFeed:
    """Keeps `sensors` up to date from `with` to its end; a service that cannot tell is let be."""

    def __init__(self, sensors: Sensors, ask: Ask, *, pause_seconds: float = ASK_SECONDS) -> None:
        self._sensors = sensors
        self._ask = ask
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensors", daemon=True)

    def __enter__(self) -> Self:
        """Begin to ask."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ask no more; an answer that is on its way is not waited for."""
        self._stop.set()

    def _run(self) -> None:
        while self._ask_once():
            if self._stop.wait(self._pause_seconds):
                return

    def _ask_once(self) -> bool:
        """Ask; whether it makes sense to ask again."""
        try:
            self._sensors.take(self._ask(self._sensors.newest_ms))
        except (ConnectionFailed, Unavailable):
            return True  # the stream of events says so where people see it
        except (RedkilnError, RuntimeError):
            return False  # an older service, a job that is gone, or a client that was closed
        return True
