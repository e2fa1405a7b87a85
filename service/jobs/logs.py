"""A job's log for people: the log of one attempt, or of the whole job as it is written."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread
from sqlmodel import Session, col, select

from redkiln.status import AttemptStatus, JobStatus
from service.attempts.logs import find_tail, log_path, read_window
from service.attempts.models import Attempt
from service.changes import Changes
from service.database import Database
from service.errors import NotFound
from service.jobs.rules import get_job

LOOK_SECONDS = 2.0
_PIECE_BYTES = 1024**2


@dataclass(frozen=True)
class LogState:
    """The log of an attempt at one moment; `attempt_id` is None before the first attempt.

    Attributes:
        size: Size in bytes.
        is_complete: Whether the attempt has ended.
        job_ended: Whether the job has ended, so that no other attempt follows.
    """

    attempt_id: str | None
    number: int
    size: int
    is_complete: bool
    job_ended: bool


def find_log(session: Session, job_id: str, *, attempt: str | None, after: int = 0) -> LogState:
    """Return the log of an attempt, by id or number, else of the newest one.

    Args:
        session: Reading session.
        job_id: Id of the job.
        attempt: Id or number of an attempt; None for the newest one.
        after: Number of an attempt; the one after it is used instead of the newest.

    Raises:
        NotFound: There is no such job or attempt.
    """
    job = get_job(session, job_id)
    statement = select(Attempt).where(Attempt.job_id == job_id)
    if attempt is not None:
        by_number = attempt.isascii() and attempt.isdigit() and len(attempt) < 10
        same = Attempt.number == int(attempt) if by_number else Attempt.id == attempt
        statement = statement.where(same)
    elif after:
        statement = statement.where(Attempt.number > after).order_by(col(Attempt.number))
    else:
        statement = statement.order_by(col(Attempt.number).desc())
    row = session.exec(statement.limit(1)).first()
    has_ended = JobStatus(job.status).is_terminal
    if row is None:
        if attempt is not None:
            raise NotFound(f"the job has no attempt {attempt!r}")
        return LogState(None, after, 0, has_ended, has_ended)
    is_complete = row.status != AttemptStatus.RUNNING
    return LogState(row.id, row.number, row.log_bytes, is_complete, has_ended)


def start_offset(logs_dir: Path, log: LogState, *, offset: int | None, tail: int | None) -> int:
    """Return the start offset: the given one, that of the last `tail` lines, else 0."""
    if log.attempt_id is None:
        return 0
    if tail is not None:
        return find_tail(log_path(logs_dir, log.attempt_id), size=log.size, lines=tail)
    return min(offset or 0, log.size)


def read_log(logs_dir: Path, log: LogState, *, start: int) -> Iterator[bytes]:
    """Yield the stored bytes of a log from an offset on, in pieces."""
    if log.attempt_id is None:
        return
    path = log_path(logs_dir, log.attempt_id)
    while start < log.size:
        window = read_window(path, start=start, end=min(log.size, start + _PIECE_BYTES))
        if not window.data:
            return
        yield window.data
        start = window.end


async def follow_log(
    database: Database,
    changes: Changes,
    logs_dir: Path,
    job_id: str,
    *,
    attempt: str | None,
    start: int,
    log: LogState,
) -> AsyncIterator[bytes]:
    """Yield a log as it grows, continuing with the job's next attempts unless one was chosen.

    After each wait an empty piece is yielded, so that the caller can end the stream.
    """
    with changes.follow(job_id) as changed:
        while not changes.is_closed:
            changed.clear()
            for piece in await to_thread.run_sync(_read_all, logs_dir, log, start):
                start += len(piece)
                yield piece
            if log.is_complete and attempt is not None:
                return
            newer = await to_thread.run_sync(_look, database, job_id, log)
            if newer.attempt_id != log.attempt_id and newer.attempt_id is not None:
                log, start = newer, 0
            elif log.is_complete and newer.job_ended:
                return
            elif log.is_complete or newer == log:
                await _wait(changed)
                yield b""
            else:
                log = newer


def _read_all(logs_dir: Path, log: LogState, start: int) -> list[bytes]:
    return list(read_log(logs_dir, log, start=start))


def _look(database: Database, job_id: str, log: LogState) -> LogState:
    """Return the current state of the log; after a complete log, that of the next attempt."""
    if log.is_complete:
        return database.read(lambda s: find_log(s, job_id, attempt=None, after=log.number))
    return database.read(lambda s: find_log(s, job_id, attempt=log.attempt_id))


async def _wait(changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await changed.wait()
    except TimeoutError:
        return
