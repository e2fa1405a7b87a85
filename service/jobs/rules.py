"""The one door through which a job's status moves, and what a job's history is made of."""

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, delete, select

from redkiln.failure import FailureCode
from redkiln.status import TRANSITIONS, JobStatus
from redkiln.views.job import Progress, Reason
from service.attempts.models import Checkpoint
from service.blobs.rules import discard
from service.changes import outbox
from service.database import read_now
from service.errors import Conflict, NotFound
from service.jobs.models import Job, JobEvent


def get_job(session: Session, job_id: str, *, lock: bool = False) -> Job:
    """A job, locked until the transaction ends where the caller will change it.

    Raises:
        NotFound: there is no such job.
    """
    job = session.get(Job, job_id, with_for_update=True if lock else None)
    if job is None:
        raise NotFound(f"there is no job {job_id!r}")
    return job


def move(
    session: Session,
    job: Job,
    to: JobStatus,
    *,
    now: datetime,
    reason: Reason | None = None,
    attempt_id: str | None = None,
    kind: str | None = None,
    **data: Any,
) -> None:
    """Move a job to another status, with the event that says so (`kind`, if it is a special one).

    A queued job rings the doorbell after the commit; one that succeeded drops its checkpoints, of
    others they are kept for a while, as somebody may retry it.

    Raises:
        Conflict: a job in this status cannot get there.
    """
    check_move(JobStatus(job.status), to)
    job.status = to
    job.reason = None if reason is None else reason.model_dump(mode="json")
    if to not in (JobStatus.PAUSING, JobStatus.CANCELLING):
        job.phase = None  # a job that is being stopped still does what it did
    if to is JobStatus.RUNNING:
        job.started_at = job.started_at or now
    if to is JobStatus.QUEUED:
        job.published_at = now
        outbox(session).queued.add(job.id)
    job.finished_at = now if to.is_terminal else None
    if to is JobStatus.SUCCEEDED:
        drop_checkpoints(session, job.id)
    if reason is not None:
        data["reason"] = job.reason
    note_event(session, job, kind or _EVENT_KINDS[to], at=now, attempt_id=attempt_id, **data)


def check_move(old: JobStatus, to: JobStatus) -> None:
    """Let an allowed transition pass.

    Raises:
        Conflict: it is not allowed.
    """
    if to not in TRANSITIONS[old]:
        raise Conflict(f"the job is {old} and cannot become {to}", code=f"job_{old}")


def note_event(
    session: Session,
    job: Job,
    kind: str,
    *,
    at: datetime,
    attempt_id: str | None = None,
    **data: Any,
) -> None:
    """Append to a job's history; the sequence has no gaps, as it is the job's own counter."""
    job.last_event_seq += 1
    session.add(
        JobEvent(
            job_id=job.id,
            seq=job.last_event_seq,
            at=at,
            kind=kind,
            attempt_id=attempt_id,
            data=data,
        )
    )
    outbox(session).changed.add(job.id)


def rewind(job: Job, *, step: int | None) -> None:
    """Put a job's progress back to the step that it goes on from; None: as if it had never run."""
    if job.progress is None or step is None:
        job.progress = None
        return
    known = Progress.model_validate(job.progress)
    progress = Progress(epochs=known.epochs, step=step, steps=known.steps)
    # A script need not say how many steps there are, or count them as its checkpoints.
    if 0 < known.steps >= step:
        progress.fraction = step / known.steps
        progress.epoch = min(known.epochs, step * known.epochs // known.steps + 1)
    job.progress = progress.model_dump(mode="json")


def has_checkpoint(session: Session, job_id: str, *, step: int) -> bool:
    """Whether a job keeps a checkpoint of a step."""
    statement = select(Checkpoint.id).where(Checkpoint.job_id == job_id, Checkpoint.step == step)
    return session.exec(statement).first() is not None


def drop_checkpoints(session: Session, job_id: str, *, after_step: int | None = None) -> None:
    """Remove a job's checkpoints, or those that are newer than a step."""
    which = [col(Checkpoint.job_id) == job_id]
    if after_step is not None:
        which.append(col(Checkpoint.step) > after_step)
    sha256s = session.exec(select(Checkpoint.sha256).where(*which)).all()
    session.exec(delete(Checkpoint).where(*which))
    discard(session, sha256s)


def fail_waiting(session: Session, *, job_id: str, message: str | None = None) -> bool:
    """Fail a job that still waits for a data set which turned out to be of no use.

    Args:
        session: of a writing transaction.
        job_id: which job.
        message: why; by default that the set is invalid.
    """
    job = get_job(session, job_id, lock=True)
    if job.status != JobStatus.QUEUED:
        return False
    if message is None:
        where = f"GET /v1/datasets/{job.dataset_id}"
        message = f"data set {job.dataset_id} is invalid; {where} shows why"
    reason = Reason(code=FailureCode.BAD_INPUT, message=message)
    move(session, job, JobStatus.FAILED, now=read_now(session), reason=reason)
    return True


def fail_jobs_of(session: Session, dataset_id: str) -> None:
    """Fail the jobs that wait for a data set which turned out to be of no use."""
    waiting = select(Job.id).where(Job.dataset_id == dataset_id, Job.status == JobStatus.QUEUED)
    for job_id in session.exec(waiting).all():
        fail_waiting(session, job_id=job_id)


_EVENT_KINDS = {
    JobStatus.QUEUED: "requeued",
    JobStatus.RUNNING: "started",
    JobStatus.PAUSING: "pausing",
    JobStatus.PAUSED: "paused",
    JobStatus.CANCELLING: "cancelling",
    JobStatus.SUCCEEDED: "succeeded",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELLED: "cancelled",
}
