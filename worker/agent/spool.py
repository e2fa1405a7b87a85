"""What of a job directory's events and log the service has, and what comes next.

`events.jsonl` and `trainer.log` are the spool: nothing is kept in memory but how far they were
acknowledged, so hours without a service cost disk and no more.
"""

from dataclasses import dataclass
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
    """One whole line of `events.jsonl` and where the next one starts."""

    event: Event
    end_offset: int


@dataclass
class EventSpool:
    """Reads events from a place in the file on.

    Attributes:
        next_seq: number of the event at `offset`, counted from 1.
    """

    path: Path
    offset: int = 0
    next_seq: int = 1

    @classmethod
    def at_end(cls, path: Path) -> "EventSpool":
        """Reads what will be written from now on; its numbers count from 1 here."""
        return cls(path, offset=file_size(path))

    @property
    def has_more(self) -> bool:
        """Whether the file goes on, be it with half a line; this is one stat."""
        return file_size(self.path) > self.offset

    def peek(
        self, *, max_bytes: int = MAX_BATCH_BYTES, max_events: int = MAX_BATCH_EVENTS
    ) -> list[Line]:
        """The next whole lines; at least one if there is one, however long it is."""
        content = _read(self.path, self.offset, max_bytes)
        if b"\n" not in content and len(content) == max_bytes:
            content = _read(self.path, self.offset, -1)
        lines: list[Line] = []
        end = self.offset
        for raw in content.split(b"\n")[:-1][:max_events]:
            end += len(raw) + 1
            lines.append(Line(parse_event(raw), end))
        return lines

    def take(self) -> list[Event]:
        """The next whole lines' events, each given once."""
        lines = self.peek()
        self.advance(lines, to_seq=self.next_seq + len(lines) - 1)
        return [line.event for line in lines]

    def advance(self, lines: list[Line], *, to_seq: int) -> None:
        """Go on behind event `to_seq`, which is one of these lines or the one before them."""
        count = to_seq - self.next_seq + 1
        if count > 0:
            self.offset = lines[min(count, len(lines)) - 1].end_offset
            self.next_seq += min(count, len(lines))

    def seek(self, next_seq: int) -> None:
        """Go to an event by its number; stays at the end of the file if there is none such."""
        self.offset, self.next_seq = 0, 1
        while self.next_seq < next_seq and (lines := self.peek()):
            self.advance(lines, to_seq=next_seq - 1)


def parse_event(raw: bytes) -> Event:
    """An event from its line; what cannot be read becomes a message, as numbers must not shift."""
    try:
        return Event.model_validate_json(raw)
    except ValidationError:
        text = f"unreadable event line: {raw[:200]!r}"
        return Event(at=datetime.now(UTC), kind=EventKind.MESSAGE, data={"text": text})


def read_log_chunk(path: Path, *, offset: int, max_bytes: int = MAX_LOG_BYTES) -> LogChunk | None:
    """The log's next bytes; None when there are none."""
    content = _read(path, offset, max_bytes)
    # Not validated: the field's validator would take the bytes for base64.
    return LogChunk.model_construct(offset=offset, data=content) if content else None


def file_size(path: Path) -> int:
    """Bytes in the file; 0 while it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_tail(path: Path, *, max_bytes: int = 8192) -> str:
    """The last characters of a text file; empty while it is not there."""
    start = max(0, file_size(path) - max_bytes)
    return _read(path, start, max_bytes).decode(errors="replace")


def _read(path: Path, offset: int, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)
    except FileNotFoundError:
        return b""
