"""Limits what a project may have at once: waiting jobs, and stored bytes."""

import sqlalchemy as sa
from sqlmodel import Session, col

from service.artifacts.models import Artifact
from service.attempts.models import Checkpoint
from service.datasets.models import Dataset
from service.errors import TooManyRequests
from service.jobs.models import IS_QUEUED, JOB
from service.keys.caller import Caller
from service.settings import Settings

RETRY_SECONDS = 60
"""Time after which a project with too many waiting jobs may try again: a job has to start."""
_GIB = 1024**3


def check_waiting(session: Session, settings: Settings, caller: Caller) -> None:
    """Check that a project may queue another job.

    Raises:
        TooManyRequests: Too many of its jobs wait already.
    """
    most = settings.max_waiting_jobs
    if not settings.needs_keys or most is None:
        return
    waiting = sa.select(JOB.c.id).where(IS_QUEUED, JOB.c.project == caller.project).limit(most)
    if (
        session.execute(sa.select(sa.func.count()).select_from(waiting.subquery())).scalar_one()
        < most
    ):
        return
    message = (
        f"project {caller.project!r} already has the allowed {most} waiting jobs; submit again "
        "when some have started, or cancel some"
    )
    raise TooManyRequests(message, code="too_many_waiting", retry_after_seconds=RETRY_SECONDS)


def check_stored(
    session: Session, settings: Settings, caller: Caller, *, more_bytes: int = 0
) -> None:
    """Check that a project may store more bytes.

    Args:
        session: Session of the transaction that stores them.
        settings: Settings with the limit.
        caller: Owner of the bytes.
        more_bytes: Bytes to add.

    Raises:
        TooManyRequests: It would have too many.
    """
    most = settings.max_stored_bytes
    if not settings.needs_keys or most is None:
        return
    used = measure_stored(session, caller.project)
    if used + more_bytes <= most:
        return
    message = (
        f"project {caller.project!r} stores {used / _GIB:.1f} GiB of at most {most / _GIB:.1f}; "
        "delete jobs or data sets (`redkiln storage` lists the largest), or ask for "
        "REDKILN_MAX_STORED_BYTES to be raised"
    )
    raise TooManyRequests(message, code="storage_quota")


def measure_stored(session: Session, project: str) -> int:
    """Return the bytes of a project's data sets, files and checkpoints."""
    own = sa.select(JOB.c.id).where(JOB.c.project == project)
    sizes = (
        sa.select(sa.func.sum(col(Dataset.size_bytes))).where(
            col(Dataset.project) == project,
            col(Dataset.kind) == "archive",
            col(Dataset.deleted_at).is_(None),
        ),
        sa.select(sa.func.sum(col(Artifact.size_bytes))).where(col(Artifact.job_id).in_(own)),
        sa.select(sa.func.sum(col(Checkpoint.size_bytes))).where(col(Checkpoint.job_id).in_(own)),
    )
    return sum(session.execute(size).scalar_one() or 0 for size in sizes)
