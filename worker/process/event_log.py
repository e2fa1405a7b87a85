"""Writes a run's events at a bounded rate and measures the time spent in each phase."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from redkiln.events import EventKind, EventWriter
from redkiln.failure import JobFailure
from redkiln.status import Phase
from redkiln.views.job import Progress

QUIET_SECONDS = 1.0
"""A phase that took less than this on its last visit is timed but not announced."""


class EventLog:
    """Writes the events of a run.

    Attributes:
        seconds: Time spent in each phase so far, by the phase's name.
    """

    def __init__(
        self,
        writer: EventWriter,
        *,
        progress_seconds: float,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        self.seconds: dict[str, float] = dict(seconds or {})
        self._writer = writer
        self._progress_seconds = progress_seconds
        self._next_progress = 0.0
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._phase: Phase | None = None
        self._announced: Phase | None = None
        self._entered = time.perf_counter()
        self._last: dict[Phase, float] = {}
        self._shown: dict[str, Any] = {}

    def enter(self, phase: Phase) -> None:
        """Begin a phase; the time until now counts towards the previous one.

        A recurring phase such as evaluation is announced only while its visits are long, because
        short epochs would otherwise flood the job's events.
        """
        self.settle()
        self._phase = phase
        is_brief = self._last.get(phase, QUIET_SECONDS) < QUIET_SECONDS
        if phase != self._announced and not is_brief:
            self._writer.write(EventKind.PHASE, phase=phase)
            self._announced = phase

    @property
    def written_at(self) -> float:
        """Monotonic time of the last event."""
        return self._writer.written_at

    @property
    def silent_seconds(self) -> float:
        """Time since the last event."""
        return time.monotonic() - self._writer.written_at

    def show_compiling(self, activity: str) -> None:
        """Show that the present phase waits for kernels; its time still counts towards it.

        This and `end_compiling` may be called by another thread than the rest.

        Args:
            activity: Text about compiling, for the progress.
        """
        if self._announced is not Phase.COMPILING:
            self._announced = Phase.COMPILING
            self._writer.write(EventKind.PHASE, phase=Phase.COMPILING)
        self._writer.write(EventKind.PROGRESS, **{**self._shown, "activity": activity})

    def end_compiling(self) -> None:
        """Show the present phase again, unless it has been announced meanwhile."""
        if self._announced is Phase.COMPILING and self._phase is not None:
            self._announced = self._phase
            self._writer.write(EventKind.PHASE, phase=self._phase)

    def settle(self) -> dict[str, float]:
        """Add the time until now to its phase and return `seconds`."""
        now = time.perf_counter()
        if self._phase is not None:
            spent = now - self._entered
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + spent
            if self._phase is not Phase.TRAINING:
                self._last[self._phase] = spent
        self._entered = now
        return self.seconds

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Count the time inside the block towards no phase; the phase shown stays the same."""
        self.settle()
        phase, self._phase = self._phase, None
        try:
            yield
        finally:
            self._entered = time.perf_counter()
            self._phase = phase

    def log(self, text: str) -> None:
        """Write a line to the log, which is this process's standard output."""
        at = datetime.now(UTC).strftime("%H:%M:%S")
        print(f"{at} {text}", flush=True)  # noqa: T201  standard output is the log

    def message(self, text: str) -> None:
        """Write a message to the user, in the events and in the log."""
        self.log(text)
        self._writer.write(EventKind.MESSAGE, text=text)

    def warning(self, code: str, message: str) -> None:
        """Add a warning to the job."""
        self._writer.write(EventKind.WARNING, code=code, message=message)

    def write(self, kind: EventKind, **data: Any) -> None:
        """Write an event unchanged."""
        self._writer.write(kind, **data)

    def add_point(self, name: str, step: int, value: float) -> None:
        """Keep a metric's point for the next metrics event."""
        self._points.setdefault(name, []).append((step, value))

    def is_progress_due(self) -> bool:
        """Return whether it is time for the next progress event."""
        return time.perf_counter() >= self._next_progress

    def progress(self, progress: Progress) -> None:
        """Write the points kept so far and a progress event."""
        self.flush_points()
        self._shown = progress.model_dump()
        self._writer.write(EventKind.PROGRESS, **self._shown)
        self._next_progress = time.perf_counter() + self._progress_seconds

    def show_activity(self, activity: str | None) -> None:
        """Show what the present phase does, or nothing, with the last progress but no time left."""
        self._writer.write(
            EventKind.PROGRESS, **{**self._shown, "activity": activity, "eta_seconds": None}
        )

    def flush_points(self) -> None:
        """Write the points kept so far in one event."""
        if self._points:
            self._writer.write(EventKind.METRICS, points=self._points)
            self._points = {}

    def undo_after(self, step: int) -> None:
        """Withdraw the points of later steps, because training has gone back to this one."""
        kept = {
            name: [point for point in points if point[0] <= step]
            for name, points in self._points.items()
        }
        self._points = {}
        points = {name: some for name, some in kept.items() if some}
        self._writer.write(EventKind.METRICS, points=points, undone_after=step)

    def failure(self, failure: JobFailure) -> None:
        """Write the failure event, after which the process ends."""
        self.flush_points()
        self._writer.write(EventKind.FAILURE, **failure.model_dump())
