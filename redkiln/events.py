"""Events of an attempt: lines of `events.jsonl`, all that a trainer reports while it runs.

One process writes the file at a time: the agent before and after the trainer's life, the trainer
or the export child during it. The agent ships whole lines from the last acknowledged one on, so
the file is the spool. An event's sequence number is its line number, counted from 1.
"""

import json
import os
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field


class EventKind(StrEnum):
    """What an event reports, and what its `data` holds.

    PHASE: `phase`, a `redkiln.status.Phase`.
    PROGRESS: the fields of `redkiln.views.job.Progress`; only the newest event counts.
    METRICS: `points`, `{name: [[step, value], ...]}` in rising steps. `undone_after` is a step that
        training went back to or started from: points of later steps reported before are void.
    MESSAGE: `text`, for people.
    WARNING: `code` and `message`; is added to the job's warnings.
    RESOLVED: `spec`, with a value for each `auto`, and `environment`; sent again, perhaps without
        `environment`, when something in the spec had to change.
    CHECKPOINT: `step`, `epoch`, `file` (below `checkpoints/`), `is_best`, `metrics`.
    ARTIFACT: a complete file: `name`, `kind`, `media_type`, `path` below the job directory.
    RESULT: `metrics` on the test split, `verified`, `timings` (seconds by phase).
    FAILURE: a `redkiln.failure.JobFailure`; the process ends after it.
    """

    PHASE = "phase"
    PROGRESS = "progress"
    METRICS = "metrics"
    MESSAGE = "message"
    WARNING = "warning"
    RESOLVED = "resolved"
    CHECKPOINT = "checkpoint"
    ARTIFACT = "artifact"
    RESULT = "result"
    FAILURE = "failure"


TRANSIENT: frozenset[EventKind] = frozenset({EventKind.PROGRESS, EventKind.METRICS})
"""Kinds that the service folds into the job and its series instead of keeping them as events."""


EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""Times that every system can represent; a clock that is further off is set to one of them."""


def _bound_time(at: datetime) -> datetime:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(aware, EARLIEST), LATEST)


Step = Annotated[int, Field(ge=0, lt=2**53)]
"""Number of a step; JavaScript and every database count up to this bound exactly."""


class Event(BaseModel):
    """One line of `events.jsonl`."""

    at: Annotated[datetime, AfterValidator(_bound_time)]
    kind: EventKind
    data: dict[str, Any] = Field(default_factory=dict)


class EventWriter:
    """Appends events to a job directory's `events.jsonl`, each in one write.

    Opening it removes a partial last line, left by a process that died while writing; such a line
    was never shipped.

    Attributes:
        written_at: Monotonic time of the last event, or of the opening.
    """

    def __init__(self, path: Path) -> None:
        self.written_at = time.monotonic()
        _cut_partial_line(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, kind: EventKind, **data: Any) -> None:
        """Append one event with the current time.

        Raises:
            OSError: The disk is full or the folder is gone.
        """
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"at": at, "kind": kind, "data": data}, separators=(",", ":"))
        self._append(line.encode() + b"\n")
        self.written_at = time.monotonic()

    def _append(self, line: bytes) -> None:
        """Write a whole line or nothing: a full disk may accept only a part of it."""
        size = os.fstat(self._fd).st_size
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            os.ftruncate(self._fd, size)
            raise

    def close(self) -> None:
        """Close the file; later writes raise an error."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _cut_partial_line(path: Path) -> None:
    if not path.exists():
        return
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        os.truncate(path, end)
