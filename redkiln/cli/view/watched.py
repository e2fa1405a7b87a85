"""The state of a watched job: the updates of its stream folded into one object."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redkiln.advice.wording import as_options
from redkiln.cli.view import words
from redkiln.cli.view.run_time import running_seconds
from redkiln.cli.view.sensors import Sensors
from redkiln.client import Disconnected, Reconnected, Snapshot, Update
from redkiln.events import EventKind
from redkiln.status import JobStatus, Phase
from redkiln.views.job import EventView, JobView, Progress

NUM_LINES = 6
"""Number of recent messages that are kept for display."""


@dataclass(frozen=True)
class Line:
    """One message for people.

    Attributes:
        tone: Key of `panel.STYLES`.
        topic: A line replaces the line before it if both have the same topic.
    """

    at: datetime
    text: str
    tone: str = "plain"
    topic: str | None = None


@dataclass
class Watched:
    """A job as its stream reports it.

    Attributes:
        losses: Training losses received so far, oldest first.
        lines: Newest messages.
        result: Data of the last `result` event.
        lost_connection: Why the stream is interrupted now, or None.
        sensors: Readings of the job's hardware.
    """

    job: JobView
    dataset_name: str = ""
    status: str = ""
    phase: Phase | None = None
    phases_seen: set[Phase] = field(default_factory=set)
    progress: Progress | None = None
    progress_at: float = 0.0
    losses: list[float] = field(default_factory=list)
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=NUM_LINES))
    result: dict[str, Any] | None = None
    lost_connection: str | None = None
    sensors: Sensors = field(default_factory=Sensors)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.refresh(self.job)

    def refresh(self, job: JobView) -> None:
        """Take over the job's present state from the service."""
        self.job = job
        self.status = str(job.status)
        self._enter(job.phase)
        if job.progress is not None:
            self._advance(job.progress)

    def apply(self, update: Update) -> list[Line]:
        """Fold in one update, and return the lines that describe it for people."""
        lines = self._fold(update)
        for line in lines:
            if line.tone == "phase":  # shown in its own place
                continue
            if line.topic is not None and self.lines and self.lines[-1].topic == line.topic:
                self.lines.pop()
            self.lines.append(line)
        return lines

    def elapsed_seconds(self, now: datetime) -> float:
        """Return the time in which the job ran; before its start, the time in the queue."""
        ran = running_seconds(self.job, now)
        if ran is not None:
            return max(0.0, ran)
        began = self.job.started_at or self.job.created_at
        return max(0.0, ((self.job.finished_at or now) - began).total_seconds())

    def eta_seconds(self) -> float | None:
        """Return the time left for training, counting down since the last report."""
        if self.progress is None or self.progress.eta_seconds is None:
            return None
        return max(0.0, self.progress.eta_seconds - (self.clock() - self.progress_at))

    def _fold(self, update: Update) -> list[Line]:
        now = datetime.now(UTC)
        match update:
            case Snapshot():
                self.job = self.job.model_copy(
                    update={
                        "reason": update.reason,
                        "started_at": update.started_at,
                        "finished_at": update.finished_at,
                    }
                )
                self.status = update.status
                self._enter(update.phase)
                if update.progress is not None:
                    self._advance(update.progress)
                return []
            case Disconnected(reason):
                self.lost_connection = reason
                return [Line(now, f"connection lost ({reason}), reconnecting", "warning")]
            case Reconnected():
                self.lost_connection = None
                return [Line(now, "reconnected", "good")]
            case EventView():
                self._note(update)
                return describe_event(update, is_summed_up=True)

    def _note(self, event: EventView) -> None:
        if event.kind == EventKind.PHASE:
            self._enter(_phase_of(event.data.get("phase")))
        elif event.kind == EventKind.RESULT:
            self.result = event.data

    def _enter(self, phase: Phase | None) -> None:
        self.phase = phase
        if phase is not None:
            self.phases_seen.add(phase)

    def _advance(self, progress: Progress) -> None:
        is_new = self.progress is None or progress.step != self.progress.step
        self.progress = progress
        self.progress_at = self.clock()
        loss = progress.metrics.get("train/loss")
        if is_new and loss is not None and loss == loss:
            self.losses.append(loss)


_SUMMED_UP = frozenset({"submitted", *(str(one) for one in JobStatus if one.is_terminal)})


def describe_event(event: EventView, *, is_summed_up: bool = False) -> list[Line]:
    """Describe an event in words; nothing for events that the view shows elsewhere.

    Args:
        event: The event.
        is_summed_up: Whether the job's status is shown before the first event, and a summary with
            the reason after the last one, so that neither need be shown twice.
    """
    if is_summed_up and event.kind in _SUMMED_UP:
        return []
    text, tone = _describe(event.kind, event.data)
    topic = "checkpoint" if event.kind in (EventKind.CHECKPOINT, "committed") else None
    return [Line(event.at, text, tone, topic)] if text else []


def warning_of(event: EventView) -> set[str]:
    """Return the message of a warning; nothing for other events."""
    return {str(event.data.get("message"))} if event.kind == EventKind.WARNING else set()


def _describe(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    match kind:
        case EventKind.PHASE:
            return str(data.get("phase", "")), "phase"
        case EventKind.MESSAGE:
            return str(data.get("text", "")), "plain"
        case EventKind.WARNING:
            return as_options(f"warning: {data.get('message', data.get('code'))}"), "warning"
        case EventKind.RESOLVED:
            return _describe_resolved(data), "plain"
        case EventKind.CHECKPOINT:
            best = ", the best so far" if data.get("is_best") else ""
            return f"checkpoint at step {words.count(data.get('step', 0))}{best}", "quiet"
        case EventKind.RESULT:
            return "", "plain"
        case EventKind.ARTIFACT:
            file = data.get("file") or {}
            return f"file {file['name']} is complete" if "name" in file else "", "quiet"
        case EventKind.FAILURE:
            return f"attempt failed: {data.get('message', data.get('code'))}", "bad"
    return _describe_other(kind, data)


_STATUS_TONES = {
    "failed": "bad",
    "succeeded": "good",
    "requeued": "warning",
    "cancelled": "warning",
}


def _describe_other(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    """Describe an event of the service itself, or of a kind newer than this client."""
    if kind == "started" and "number" in data:
        return f"attempt {data['number']} started", "quiet"
    if kind == "committed" and "step" in data:
        return f"checkpoint of step {words.count(data['step'])} is uploaded", "quiet"
    reason = data.get("reason") or {}
    message = data.get("message") or (reason.get("message") if isinstance(reason, dict) else reason)
    details = ", ".join(
        f"{name} {value}"
        for name, value in data.items()
        if name not in ("reason", "name", "dataset_id") and isinstance(value, str | int | float)
    )
    description = message or details
    text = kind.replace("_", " ") + (f": {description}" if description else "")
    return text, _STATUS_TONES.get(kind, "quiet")


def _describe_resolved(data: dict[str, Any]) -> str:
    spec = data.get("spec") or {}
    environment = data.get("environment") or {}
    training = spec.get("training") or {}
    model = spec.get("model")
    parts = [
        model.get("name") if isinstance(model, dict) else model,
        f"batch {training['batch_size']}" if training.get("batch_size", "auto") != "auto" else None,
        training.get("precision"),
        f"on {device}" if (device := words.device(environment)) else None,
    ]
    known = [str(part) for part in parts if part]
    return ", ".join(known)


def _phase_of(value: Any) -> Phase | None:
    try:
        return Phase(value)
    except ValueError:
        return None  # a phase of a newer service; it is still shown as a line
