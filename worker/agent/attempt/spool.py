"""Which of a job directory's events and log the service has received, and what comes next.

`events.jsonl` and `trainer.log` are the spool. Only the acknowledged position and one batch of
parsed events are kept in memory, so hours without a service cost only disk space.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from redkiln.events import Event, EventKind
from redkiln.protocol import LogChunk

MAX_BATCH_BYTES = 512 * 1024
MAX_BATCH_EVENTS = 2000
MAX_LOG_BYTES = 256 * 1024


@dataclass(frozen=True)
class Line:
    """One complete line of `events.jsonl` and the offset of the next one."""

    event: Event
    end_offset: int


@dataclass
class EventSpool:
    """Reads events from a given offset of the file onwards, and parses each line once.

    Attributes:
        next_seq: Number of the event at `offset`, counted from 1.
    """

    path: Path
    offset: int = 0
    next_seq: int = 1
    _pending: list[Line] = field(default_factory=list)

    @classmethod
    def at_end(cls, path: Path) -> "EventSpool":
        """Return a spool that reads only what is written from now on, numbered from 1."""
        return cls(path, offset=file_size(path))

    @property
    def has_more(self) -> bool:
        """Whether the file has more bytes, even an incomplete line; costs one stat."""
        return file_size(self.path) > self.offset

    def peek(
        self, *, max_bytes: int = MAX_BATCH_BYTES, max_events: int = MAX_BATCH_EVENTS
    ) -> list[Line]:
        """Return the next complete lines: at least one if there is one, however long it is.

        A repeated call reads only what was written since the last one, until the batch is full.
        """
        end = self._pending[-1].end_offset if self._pending else self.offset
        num_bytes = max_bytes - (end - self.offset)
        num_events = max_events - len(self._pending)
        if num_bytes > 0 and num_events > 0 and file_size(self.path) > end:
            content = _read(self.path, end, num_bytes)
            if not self._pending and b"\n" not in content and len(content) == max_bytes:
                content = _read(self.path, end, -1)
            lines = []
            for raw in content.split(b"\n")[:-1][:num_events]:
                end += len(raw) + 1
                lines.append(Line(parse_event(raw), end))
            self._pending = [*self._pending, *lines]
        return self._pending

    def take(self) -> list[Event]:
        """Return the events of the next complete lines, each exactly once."""
        lines = self.peek()
        self.advance(to_seq=self.next_seq + len(lines) - 1)
        return [line.event for line in lines]

    def advance(self, *, to_seq: int) -> None:
        """Move past event `to_seq`, which is among the lines of the last peek or before them."""
        passed = self._pending[: max(0, to_seq - self.next_seq + 1)]
        if passed:
            self.offset = passed[-1].end_offset
            self.next_seq += len(passed)
            self._pending = self._pending[len(passed) :]

    def seek(self, next_seq: int) -> None:
        """Move to an event by its number, or to the end of the file if it does not exist."""
        self.offset, self.next_seq, self._pending = 0, 1, []
        while self.next_seq < next_seq and self.peek():
            self.advance(to_seq=next_seq - 1)


def parse_event(raw: bytes) -> Event:
    """Parse an event's line; an unreadable one becomes a message, so that numbers do not shift."""
    try:
        return Event.model_validate_json(raw)
    except ValidationError:
        text = f"unreadable event line: {raw[:200]!r}"
        return Event(at=datetime.now(UTC), kind=EventKind.MESSAGE, data={"text": text})


def read_log_chunk(path: Path, *, offset: int, max_bytes: int = MAX_LOG_BYTES) -> LogChunk | None:
    """Return the next bytes of the log, or None."""
    content = _read(path, offset, max_bytes)
    # Not validated: the field's validator would decode the bytes as base64.
    return LogChunk.model_construct(offset=offset, data=content) if content else None


def file_size(path: Path) -> int:
    """Return the file's size in bytes; 0 while it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_tail(path: Path, *, max_bytes: int = 8192) -> str:
    """Return the end of a text file; empty while it does not exist."""
    start = max(0, file_size(path) - max_bytes)
    return _read(path, start, max_bytes).decode(errors="replace")


def _read(path: Path, offset: int, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)
    except FileNotFoundError:
        return b""
