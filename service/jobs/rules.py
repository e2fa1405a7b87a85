"""The only functions that change a job's status, and that write its history."""

from collections.abc import Mapping
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
from service.jobs.outcome import forget_outcome, record_outcome
from service.workers.needs import set_needs


def get_job(session: Session, job_id: str, *, lock: bool = False) -> Job:
    """Return a job; `lock` locks it until the transaction ends, for callers that change it.

    Raises:
        NotFound: There is no such job.
    """
    job = session.get(Job, job_id, with_for_update=True if lock else None)
    if job is None:
        raise NotFound(f"there is no job {job_id!r}; GET /v1/jobs lists the jobs with their ids")
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
    data: Mapping[str, Any] | None = None,
) -> None:
    """Move a job to another status and record the event (`kind` replaces the default kind).

    A queued job rings the doorbell after the commit. A job that succeeded drops its checkpoints;
    other jobs keep them for a while, so that they can be retried.

    Raises:
        Conflict: A job cannot move from its current status to this one.
    """
    check_move(JobStatus(job.status), to)
    job.status = to
    job.reason = None if reason is None else reason.model_dump(mode="json")
    if to not in (JobStatus.PAUSING, JobStatus.CANCELLING):
        job.phase = None  # a job that is being stopped is still in its phase
    if to is JobStatus.RUNNING:
        job.started_at = job.started_at or now
    if to is JobStatus.QUEUED:
        job.published_at = now
        set_needs(job)
        outbox(session).queued.add(job.id)
    job.finished_at = now if to.is_terminal else None
    if to is JobStatus.SUCCEEDED:
        drop_checkpoints(session, job.id)
    said = {**(data or {}), **({} if reason is None else {"reason": job.reason})}
    note_event(session, job, kind or _EVENT_KINDS[to], said, at=now, attempt_id=attempt_id)
    if job.result is not None:
        forget_outcome(session, job)
    if to.is_terminal:
        record_outcome(session, job)
        outbox(session).ended.add(job.id)


_STATES = {
    JobStatus.QUEUED: "is queued",
    JobStatus.RUNNING: "is running",
    JobStatus.PAUSING: "is about to be paused",
    JobStatus.PAUSED: "is paused",
    JobStatus.CANCELLING: "is about to be cancelled",
    JobStatus.SUCCEEDED: "has already succeeded",
    JobStatus.FAILED: "has already failed",
    JobStatus.CANCELLED: "was already cancelled",
}
_MOVES = {
    JobStatus.QUEUED: "be queued",
    JobStatus.RUNNING: "start",
    JobStatus.PAUSING: "be paused",
    JobStatus.PAUSED: "be paused",
    JobStatus.CANCELLING: "be cancelled",
    JobStatus.SUCCEEDED: "succeed",
    JobStatus.FAILED: "fail",
    JobStatus.CANCELLED: "be cancelled",
}


def check_move(old: JobStatus, to: JobStatus) -> None:
    """Check that a transition is allowed.

    Raises:
        Conflict: The transition is not allowed.
    """
    if to not in TRANSITIONS[old]:
        raise Conflict(f"the job {_STATES[old]}, so it cannot {_MOVES[to]}", code=f"job_{old}")


def note_event(
    session: Session,
    job: Job,
    kind: str,
    data: Mapping[str, Any] | None = None,
    *,
    at: datetime,
    attempt_id: str | None = None,
) -> None:
    """Append an event to a job's history; `seq` has no gaps because it counts within the job.

    Args:
        session: Session of the transaction.
        job: Job that it happened to.
        kind: Kind of the event.
        data: Facts of the event, with any keys: a worker's events may hold any.
        at: Time of the event.
        attempt_id: Attempt that reported it.
    """
    job.last_event_seq += 1
    session.add(
        JobEvent(
            job_id=job.id,
            seq=job.last_event_seq,
            at=at,
            kind=kind,
            attempt_id=attempt_id,
            data=dict(data or {}),
        )
    )
    outbox(session).changed.add(job.id)


def rewind(job: Job, *, step: int | None) -> None:
    """Set a job's progress back to the step that it resumes from; None for a fresh start."""
    if job.progress is None or step is None:
        job.progress = None
        return
    known = Progress.model_validate(job.progress)
    progress = Progress(epochs=known.epochs, step=step, steps=known.steps)
    # A script may not report its number of steps, or may count them unlike its checkpoints.
    if 0 < known.steps >= step:
        progress.fraction = step / known.steps
        progress.epoch = min(known.epochs, step * known.epochs // known.steps + 1)
    job.progress = progress.model_dump(mode="json")


def has_checkpoint(session: Session, job_id: str, *, step: int) -> bool:
    """Return whether a job has a checkpoint of a step."""
    statement = select(Checkpoint.id).where(Checkpoint.job_id == job_id, Checkpoint.step == step)
    return session.exec(statement).first() is not None


def drop_checkpoints(session: Session, job_id: str, *, after_step: int | None = None) -> None:
    """Delete a job's checkpoints, or only those after a step."""
    which = [col(Checkpoint.job_id) == job_id]
    if after_step is not None:
        which.append(col(Checkpoint.step) > after_step)
    sha256s = session.exec(select(Checkpoint.sha256).where(*which)).all()
    session.exec(delete(Checkpoint).where(*which))
    discard(session, sha256s)


def fail_waiting(session: Session, *, job_id: str, message: str | None = None) -> bool:
    """Fail a job if it still waits for a data set that turned out to be unusable.

    Args:
        session: Session of a writing transaction.
        job_id: Id of the job.
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
