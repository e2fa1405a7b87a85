"""A job's history as pages and as a stream that can be resumed at any event.

Stream format (Server-Sent Events): `id` is an event's `seq`, `event` its kind, `data` an
`EventView`. Between them, `event: progress` without an id carries the current `JobSummary`, which
is not replayed. A comment is sent during long silences. `event: end` follows the last event of a
job that has finished.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from anyio import to_thread
from sqlmodel import Session, col, select

from redkiln.views.job import EventView, JobSummary
from service.changes import Changes
from service.database import Database
from service.jobs.models import JobEvent
from service.jobs.rules import get_job
from service.jobs.views import summary_of

_BATCH = 500


@dataclass(frozen=True)
class _Look:
    events: Sequence[EventView]
    summary: JobSummary
    revision: int
    last_seq: int


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

    The stream asks the database only when `changes` announces a change, so that an idle one costs
    nothing but a comment now and then.
    """
    revision = -1
    with changes.follow(job_id) as changed:
        while not changes.is_closed:
            changed.clear()
            look = await to_thread.run_sync(_look, database, job_id, after_seq)
            for event in look.events:
                after_seq = event.seq
                yield _frame(event.kind, event.model_dump_json(), seq=event.seq)
            if look.revision != revision:
                revision = look.revision
                yield _frame("progress", look.summary.model_dump_json())
            if after_seq < look.last_seq:
                continue
            if look.summary.is_terminal:
                yield _frame("end", look.summary.model_dump_json())
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
        return _Look(events, summary_of(job), job.revision, job.last_event_seq)

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
