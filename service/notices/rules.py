"""Records messages with the ends of jobs, and chooses what is to be sent next."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlmodel import Session, col, delete, select

from redkiln.status import JobStatus
from redkiln.views.notice import NoticeView
from service.database import read_now
from service.ids import new_id
from service.jobs.models import Job
from service.notices.messages import News
from service.notices.models import Notice
from service.notices.targets import Target

MAX_TRIES = 8
"""Tries of one message; with the pauses below, the last comes after about 5 hours."""
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 2 * 3600.0
SENDING_SECONDS = 120.0
"""Time after which a message whose sender has died is tried again."""
KEEP_DAYS = 30
_BATCH = 20


def record_ends(session: Session, targets: Sequence[Target], job_ids: Iterable[str]) -> bool:
    """Record a message to each target for each job that has just ended.

    It belongs to the transaction that ends the jobs, so that no end goes unannounced.

    Returns:
        Whether there is anything to send.
    """
    ended = [session.get_one(Job, job_id) for job_id in job_ids if targets]
    now = read_now(session) if ended else None
    for job in ended:
        assert now is not None
        for target in targets:
            session.add(
                Notice(
                    id=new_id("note"),
                    job_id=job.id,
                    target=target.label,
                    event=job.status,
                    due_at=now,
                    created_at=now,
                )
            )
    return bool(ended)


def take_due(session: Session) -> list[tuple[Notice, News]]:
    """Return messages to send now; until `SENDING_SECONDS` have passed, nobody else gets them."""
    now = read_now(session)
    found = session.exec(
        select(Notice)
        .where(Notice.status == "pending", col(Notice.due_at) <= now)
        .order_by(col(Notice.due_at))
        .limit(_BATCH)
        .with_for_update(skip_locked=True)
    ).all()
    taken = []
    for notice in found:
        notice.num_tries += 1
        notice.due_at = now + timedelta(seconds=SENDING_SECONDS)
        taken.append((notice, _news(session, notice)))
    return taken


def settle(session: Session, notice_id: str, *, error: str | None) -> None:
    """Record how a try has ended, and when the next one is due."""
    notice = session.get(Notice, notice_id)
    if notice is None or notice.status != "pending":
        return
    now = read_now(session)
    notice.error = error
    if error is None:
        notice.status, notice.sent_at = "sent", now
    elif notice.num_tries >= MAX_TRIES:
        notice.status = "failed"
    else:
        notice.due_at = now + timedelta(seconds=pause_seconds(notice.num_tries))


def pause_seconds(num_tries: int) -> float:
    """Return the pause before the next try of a message."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 3.0 ** (num_tries - 1))


def forget_old(session: Session, *, before: datetime) -> None:
    """Delete old entries of the log."""
    session.exec(delete(Notice).where(col(Notice.created_at) < before))


def list_notices(session: Session, *, after: str | None, limit: int) -> list[NoticeView]:
    """Return messages and their delivery, newest first."""
    statement = select(Notice)
    if after is not None:
        statement = statement.where(Notice.id < after)
    rows = session.exec(statement.order_by(col(Notice.id).desc()).limit(limit)).all()
    return [NoticeView.model_validate(row.model_dump()) for row in rows]


def has_pending(session: Session) -> bool:
    """Return whether a message waits for its next try."""
    statement = sa.select(sa.literal(1)).where(col(Notice.status) == "pending").limit(1)
    return session.execute(statement).first() is not None


def _news(session: Session, notice: Notice) -> News:
    job = session.get(Job, notice.job_id)
    is_same = job is not None and job.status == notice.event
    reason = (job.reason or {}).get("message") if job is not None and is_same else None
    return News(
        id=notice.id,
        job_id=notice.job_id,
        job_name="(deleted)" if job is None else job.name,
        event=str(JobStatus(notice.event)),
        at=notice.created_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        reason=None if job is not None and job.status == JobStatus.SUCCEEDED else reason,
    )
