"""The order of the queue: by priority, then by place, then by id.

A new job's place is its time of creation, so older jobs are first. A place has room for 1,023 more
jobs in each microsecond. A job that is moved takes a place between two others; if none is
left, the waiting jobs of its priority are spread out first.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.status import JobStatus
from service.errors import Conflict, Unprocessable
from service.ids import created_us
from service.jobs.models import JOB, Job
from service.jobs.rules import get_job

_ROOM_BITS = 10
_STEP = 1 << 20
"""Distance of two places after they were spread out, and to a job that is first or last."""

QUEUE_ORDER: Sequence[Any] = (JOB.c.priority.desc(), JOB.c.place, JOB.c.id)
"""The columns by which the queue is sorted, best job first."""


def first_place(job_id: str) -> int:
    """Return the place of a new job: its time of creation, with room between two jobs."""
    return created_us(job_id) << _ROOM_BITS


def is_ahead(priority: Any, place: Any, job_id: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a job is ahead of one with these values."""
    return sa.or_(
        JOB.c.priority > priority,
        sa.and_(
            JOB.c.priority == priority,
            sa.or_(JOB.c.place < place, sa.and_(JOB.c.place == place, JOB.c.id < job_id)),
        ),
    )


def is_behind(priority: Any, place: Any, job_id: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a job is behind one with these values."""
    return sa.or_(
        JOB.c.priority < priority,
        sa.and_(
            JOB.c.priority == priority,
            sa.or_(JOB.c.place > place, sa.and_(JOB.c.place == place, JOB.c.id > job_id)),
        ),
    )


def put_beside(session: Session, job: Job, *, other_id: str, is_before: bool) -> bool:
    """Put a queued job directly before or after another one, with the other's priority.

    Returns:
        Whether the job was moved; False if it was there already.

    Raises:
        NotFound: There is no such other job.
        Conflict: One of the jobs is not queued.
        Unprocessable: Both are the same job.
    """
    if other_id == job.id:
        raise Unprocessable("a job cannot be moved next to itself; name another queued job")
    other = get_job(session, other_id, lock=True)
    for one in (job, other):
        if one.status != JobStatus.QUEUED:
            message = f"job {one.id} is {one.status}; only queued jobs have a place in the queue"
            raise Conflict(message, code=f"job_{one.status}")
    neighbour = _neighbour(session, other, is_before=is_before)
    if neighbour is not None and neighbour.id == job.id:
        return False
    place = _place_between(other, neighbour, is_before=is_before)
    if place is None:
        session.flush()
        _spread(session, other.priority)
        session.expire_all()  # the places of the loaded jobs
        neighbour = _neighbour(session, other, is_before=is_before)
        place = _place_between(other, neighbour, is_before=is_before)
        assert place is not None
    job.place, job.priority = place, other.priority
    return True


def put_first(session: Session, job: Job) -> None:
    """Place a job before all queued jobs of its priority, for the time when it is queued."""
    others = sa.and_(JOB.c.status == JobStatus.QUEUED, JOB.c.priority == job.priority)
    first = session.scalar(sa.select(sa.func.min(JOB.c.place)).where(others, JOB.c.id != job.id))
    if first is not None and job.place >= first:
        job.place = first - _STEP


def _neighbour(session: Session, other: Job, *, is_before: bool) -> Job | None:
    """Return the queued job of the same priority on that side of a job, if there is one."""
    neighbour_of = is_ahead if is_before else is_behind
    order = (
        (col(Job.place).desc(), col(Job.id).desc()) if is_before else (col(Job.place), col(Job.id))
    )
    return session.exec(
        select(Job)
        .where(
            Job.status == JobStatus.QUEUED,
            Job.priority == other.priority,
            neighbour_of(other.priority, other.place, other.id),
        )
        .order_by(*order)
        .limit(1)
    ).first()


def _place_between(other: Job, neighbour: Job | None, *, is_before: bool) -> int | None:
    """Return a place between two jobs, or None if all are taken."""
    if neighbour is None:
        return other.place - _STEP if is_before else other.place + _STEP
    low, high = sorted((other.place, neighbour.place))
    return None if high - low < 2 else (low + high) // 2


def _spread(session: Session, priority: int) -> None:
    """Give the queued jobs of a priority new places in the same order, before their last place."""
    waiting = sa.select(JOB.c.id, JOB.c.place).where(
        JOB.c.status == JobStatus.QUEUED, JOB.c.priority == priority
    )
    rows = session.execute(waiting.order_by(JOB.c.place, JOB.c.id)).all()
    last = rows[-1].place
    # Places are not part of a job's view, so the revisions stay.
    session.execute(
        sa.update(JOB).where(JOB.c.id == sa.bindparam("of_job")).values(place=sa.bindparam("to")),
        [
            {"of_job": row.id, "to": last - (len(rows) - 1 - number) * _STEP}
            for number, row in enumerate(rows)
        ],
    )
