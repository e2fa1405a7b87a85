"""Metrics and progress that a script reports, in any of three ways.

They are lines of `redkiln.log`, lines of output that match a pattern of the spec, and TensorBoard's
event files (`worker.script.metrics.tensorboard`). A script may mix them.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redkiln.tasks.script import compile_pattern
from redkiln.views.job import Progress
from worker.beneath import open_beneath
from worker.process.event_log import EventLog

MAX_SERIES = 500
MAX_NAME = 200
MAX_VALUE = 50
"""Most characters of a dropped value in its message."""
MAX_READ_BYTES = 4 << 20
"""Most bytes to read in one look."""
MAX_STEP = 2**53
"""First step that the service refuses."""
PLACES = ("step", "steps", "epoch", "epochs")
MIN_STEPS = 5
"""With fewer steps the remaining time would be a guess."""


@dataclass
class ScriptMetrics:
    """The latest metrics and progress that a script reported.

    Attributes:
        first: First number of curves whose script reports neither a step nor an epoch; later than
            the checkpoint that the script resumed from.
        metrics: The latest value of each metric.
        num_dropped: Values that were dropped.
        first_dropped: The first of them, and why; None before that.
    """

    event_log: EventLog
    clock: Callable[[], float] = time.monotonic
    first: int = 1
    step: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    num_dropped: int = 0
    first_dropped: str | None = None
    _has_steps: bool = False
    _has_epochs: bool = False
    _first: tuple[int, float] | None = None
    _first_epoch: tuple[int, float] | None = None
    _last_steps: dict[str, int] = field(default_factory=dict)

    def say(
        self,
        values: Mapping[str, Any],
        *,
        progress: Mapping[str, Any] | None = None,
        of_step: int | None = None,
    ) -> None:
        """Record metrics and the script's progress.

        Values that are not finite numbers, values of steps that the service cannot count, and
        series beyond the limit are dropped and counted.
        Until the script reports a step, its curves use the epoch, and the next free number if the
        epoch is unknown or has not changed.

        Args:
            values: Metrics by name.
            progress: How far the script is: `step`, `steps`, `epoch` and `epochs`.
            of_step: Step that the values belong to, if they are late; by default the current one.
        """
        self._take_progress(progress or {})
        if of_step is not None and not 0 <= of_step < MAX_STEP:
            for name in values:
                self._drop(name, f"step {of_step} is not from 0 to 2^53")
            return
        for name, value in values.items():
            number = _number(value)
            if number is None:
                self._drop(name, f"{str(value)[:MAX_VALUE]!r} is not a finite number")
                continue
            if not 0 < len(name) <= MAX_NAME:
                self._drop(name, f"a name has 1 to {MAX_NAME} characters")
                continue
            if name not in self.metrics and len(self.metrics) >= MAX_SERIES:
                self._drop(name, f"a job has at most {MAX_SERIES} series")
                continue
            self.metrics[name] = number
            step = self._place_of(name) if of_step is None else of_step
            # A series needs increasing steps; a repeated step only updates the latest value.
            if self._last_steps.get(name, -1) < step:
                self._last_steps[name] = step
                self.event_log.add_point(name, step, number)

    def progress(self) -> Progress:
        """Return the progress, as far as the script reports it."""
        fraction = self._fraction()
        return Progress(
            epoch=self.epoch,
            epochs=self.epochs,
            step=self.step,
            steps=self.steps,
            fraction=fraction,
            eta_seconds=self._eta_seconds(),
            metrics=dict(list(self.metrics.items())[:MAX_SERIES]),
        )

    @property
    def last_step(self) -> int:
        """The newest step of the progress or of any series."""
        return max(self.step, *self._last_steps.values(), 0)

    def _drop(self, name: str, why: str) -> None:
        self.num_dropped += 1
        if self.first_dropped is None:
            self.first_dropped = f"{name[:MAX_NAME]!r} at step {self.last_step} ({why})"

    def _place_of(self, name: str) -> int:
        """Return the step of the next point of a series."""
        if self._has_steps:
            return self.step
        first = self.epoch if self._has_epochs else self.first
        return max(first, self._last_steps.get(name, first - 1) + 1)

    def _take_progress(self, progress: Mapping[str, Any]) -> None:
        for name in PLACES:
            number = _number(progress.get(name))
            if number is not None and 0 <= number < MAX_STEP:
                setattr(self, name, int(number))
                self._has_steps |= name == "step"
                self._has_epochs |= name == "epoch"
        if self._first is None and self.step:
            self._first = (self.step, self.clock())
        if self._first_epoch is None and self.epoch:
            self._first_epoch = (self.epoch, self.clock())

    def _fraction(self) -> float:
        if self.steps:
            return min(1.0, self.step / self.steps)
        return min(1.0, self.epoch / self.epochs) if self.epochs else 0.0

    def _eta_seconds(self) -> float | None:
        place, last = (self.step, self.steps) if self.steps else (self.epoch, self.epochs)
        first, least = (self._first, MIN_STEPS) if self.steps else (self._first_epoch, 1)
        if first is None or not last:
            return None
        first_place, first_at = first
        done = place - first_place
        if done < least:
            return None
        return max(0.0, (self.clock() - first_at) / done * (last - place))


class MetricLines:
    """Reads the lines that `redkiln.log` writes, as the file grows.

    Attributes:
        gpu_bytes: Bytes of GPU memory that torch reported; None if torch was never imported.
    """

    def __init__(self, path: Path, metrics: ScriptMetrics) -> None:
        self._path = path
        self._metrics = metrics
        self._offset = 0
        self.gpu_bytes: int | None = None

    def read(self) -> None:
        """Read new lines; an incomplete line waits."""
        try:
            with open_beneath(self._path.parent, self._path.name) as file:
                file.seek(self._offset)
                new = file.read(MAX_READ_BYTES)
        except OSError:
            return  # nothing was logged yet, or the path is no longer a file
        end = new.rfind(b"\n") + 1
        self._offset += end
        if not end and len(new) == MAX_READ_BYTES:
            self._offset += len(new)  # `redkiln.log` never writes such a long line
        for line in new[:end].splitlines():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            self._metrics.num_dropped += 1
            return
        if not isinstance(entry, dict):
            self._metrics.num_dropped += 1
            return
        gpu_bytes = _number(entry.get("gpu_bytes"))
        if gpu_bytes is not None:
            self.gpu_bytes = max(self.gpu_bytes or 0, int(gpu_bytes))
        metrics = entry.get("metrics")
        self._metrics.say(metrics if isinstance(metrics, dict) else {}, progress=entry)


def line_reader(pattern: str, metrics: ScriptMetrics) -> Callable[[str], None]:
    """Build a function that searches lines of output for metrics.

    Args:
        pattern: Pattern of the spec; its named groups are metrics, or `step`, `epoch` and so on.
        metrics: Receives the metrics.
    """
    compiled = compile_pattern(pattern)

    def read(line: str) -> None:
        found = compiled.search(line)
        if found is None:
            return
        groups = {name: text for name, text in found.groupdict().items() if text is not None}
        progress = {name: groups.pop(name) for name in PLACES if name in groups}
        metrics.say(groups, progress=progress)

    return read


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
