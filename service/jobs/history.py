"""A job's history as pages and as a stream that can be resumed at any event.

Stream format (Server-Sent Events): `id` is an event's `seq`, `event` its kind, `data` an
`EventView`. Between them, `event: progress` without an id carries the current `JobSummary`, which
is not replayed. A comment is sent during long silences. `event: end` follows the last event of a
job that has finished.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from sqlmodel import Session, col, select

from redkiln.views.job import EventView
from service.changes import Changes
from service.database import Database
from service.jobs.models import JobEvent
from service.jobs.rules import get_job
from service.jobs.views import summary_of

_BATCH = 500


@dataclass(frozen=True)
class _Look:
    """What a job's streams send next, rendered once for all of them.

    Attributes:
        events: Frames of the events.
        seq: Number of the last of these events.
        summary: The job's summary as JSON.
        is_complete: Whether no events follow.
        is_over: Whether the job has finished, too.
    """

    events: bytes
    seq: int
    summary: str
    revision: int
    is_complete: bool
    is_over: bool


def list_events(
    session: Session, job_id: str, *, after_seq: int, limit: int
) -> tuple[list[EventView], bool]:
    """Return events after `after_seq`, and whether there are more.

    Raises:
        NotFound: There is no such job.
    """
    get_job(session, job_id)
    events = _read_events(session, job_id, after_seq, limit + 1)
    return events[:limit], len(events) > limit


async def stream_events(
    database: Database,
    changes: Changes,
    job_id: str,
    *,
    after_seq: int,
    heartbeat_seconds: float,
) -> AsyncIterator[bytes]:
    """Stream a job's events after `after_seq` until it has finished or the service stops.

    The stream asks the database only when `changes` announces a change, and once for all streams
    that have sent the same. An idle one costs nothing but a comment now and then.
    """
    revision = -1
    with changes.follow(job_id) as changed:
        while not changes.is_closed:
            changed.clear()
            read = partial(_look, database, job_id, after_seq)
            look = await changes.read_once((job_id, after_seq), read)
            after_seq = look.seq
            frames = look.events
            if look.revision != revision:
                revision = look.revision
                frames += _frame("progress", look.summary)
            if look.is_over:
                frames += _frame("end", look.summary)
            if frames:
                yield frames
            if not look.is_complete:
                continue
            if look.is_over:
                return
            while not await _has_changed(changed, within_seconds=heartbeat_seconds):
                yield b": still here\n\n"


async def _has_changed(changed: asyncio.Event, *, within_seconds: float) -> bool:
    try:
        async with asyncio.timeout(within_seconds):
            return await changed.wait()
    except TimeoutError:
        return False


def _look(database: Database, job_id: str, after_seq: int) -> _Look:
    def read(session: Session) -> _Look:
        job = get_job(session, job_id)
        events = _read_events(session, job_id, after_seq, _BATCH)
        seq = events[-1].seq if events else after_seq
        summary = summary_of(job)
        is_complete = seq >= job.last_event_seq
        return _Look(
            events=b"".join(_frame(e.kind, e.model_dump_json(), seq=e.seq) for e in events),
            seq=seq,
            summary=summary.model_dump_json(),
            revision=job.revision,
            is_complete=is_complete,
            is_over=is_complete and summary.is_terminal,
        )

    return database.read(read)


def _read_events(session: Session, job_id: str, after_seq: int, limit: int) -> list[EventView]:
    statement = (
        select(JobEvent)
        .where(JobEvent.job_id == job_id, col(JobEvent.seq) > after_seq)
        .order_by(col(JobEvent.seq))
        .limit(limit)
    )
    return [EventView.model_validate(row, from_attributes=True) for row in session.exec(statement)]


def _frame(kind: str, data: str, *, seq: int | None = None) -> bytes:
    name = f"id: {seq}\n" if seq is not None else ""
    return f"{name}event: {kind}\ndata: {data}\n\n".encode()
