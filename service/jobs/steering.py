"""What a user can do with a job: cancel, pause, resume, finish, retry, and change its place.

Each action may be repeated; a repeated one changes nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlmodel import Session, col, select

from redkiln.failure import FailureCode
from redkiln.spec.job_spec import Engine
from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus, Phase
from redkiln.tasks import trains_model
from redkiln.views.job import CheckpointView, Reason
from service.attempts.models import Checkpoint
from service.database import read_now
from service.errors import Conflict, Unprocessable
from service.jobs.engines import change_engine
from service.jobs.lists.place import put_beside, put_first
from service.jobs.models import Job
from service.jobs.rules import (
    check_move,
    drop_checkpoints,
    get_job,
    move,
    note_event,
    rewind,
)

RetryFrom = Literal["newest", "best", "start"] | int
"""Where a retry starts: from a checkpoint (`newest`, `best` or a step's), or from scratch."""


def cancel(session: Session, job_id: str, *, now: datetime) -> Job:
    """Cancel a job: at once while it waits, else when its worker gets the command.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has already finished.
    """
    job = get_job(session, job_id, lock=True)
    status = JobStatus(job.status)
    reason = Reason(code=FailureCode.CANCELLED, message="cancelled by the user")
    if status in (JobStatus.QUEUED, JobStatus.PAUSED):
        move(session, job, JobStatus.CANCELLED, now=now, reason=reason)
    elif status in (JobStatus.RUNNING, JobStatus.PAUSING):
        move(session, job, JobStatus.CANCELLING, now=now, reason=reason)
    elif status not in (JobStatus.CANCELLING, JobStatus.CANCELLED):
        check_move(status, JobStatus.CANCELLED)
    return job


def pause(session: Session, job_id: str, *, now: datetime) -> Job:
    """Pause a job: at once while it waits, else when its worker has saved a checkpoint.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has finished or is being cancelled.
    """
    job = get_job(session, job_id, lock=True)
    status = JobStatus(job.status)
    if status is JobStatus.QUEUED:
        move(session, job, JobStatus.PAUSED, now=now, reason=PAUSED)
    elif status not in (JobStatus.PAUSING, JobStatus.PAUSED):
        move(session, job, JobStatus.PAUSING, now=now, reason=PAUSED)
    return job


def resume(session: Session, job_id: str, *, now: datetime, engine: Engine | None = None) -> Job:
    """Put a paused job back into the queue; it continues from its newest checkpoint.

    Args:
        session: Session of the database.
        job_id: Id of the job.
        now: Time of the request.
        engine: Engine to continue with; None: the same.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has finished, or its worker has not stopped yet.
        Unprocessable: The engine cannot train the job.
    """
    job = get_job(session, job_id, lock=True)
    if job.status == JobStatus.PAUSING:
        message = "the job is still saving its checkpoint; resume it once it is paused"
        raise Conflict(message, code="job_pausing")
    if engine is not None or job.status not in (JobStatus.QUEUED, JobStatus.RUNNING):
        if job.status != JobStatus.PAUSED:
            message = f"the job is {job.status}; only a paused job can be resumed"
            raise Conflict(message, code=f"job_{job.status}")
        if engine is not None:
            change_engine(job, engine)
        move(session, job, JobStatus.QUEUED, now=now, kind="resumed")
    return job


def retry(session: Session, job_id: str, *, start: RetryFrom, now: datetime) -> Job:
    """Run a failed or cancelled job again, with full retry budgets.

    Checkpoints after the chosen one are deleted, because their steps are trained again.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has not ended, or has succeeded.
        Unprocessable: The job has no such checkpoint.
    """
    job = get_job(session, job_id, lock=True)
    status = JobStatus(job.status)
    if status not in (JobStatus.FAILED, JobStatus.CANCELLED):
        hint = "; resume it instead" if status is JobStatus.PAUSED else ""
        message = f"the job is {status}; only a failed or cancelled job can be retried{hint}"
        raise Conflict(message, code=f"job_{status}")
    step = _choose_step(list_checkpoints(session, job_id), start)
    drop_checkpoints(session, job_id, after_step=-1 if step is None else step)
    rewind(job, step=step)
    job.is_finishing = False
    _refill_budgets(job)
    move(session, job, JobStatus.QUEUED, now=now, kind="retried", data={"from_step": step})
    return job


def finish(session: Session, job_id: str, *, now: datetime) -> Job:
    """Stop training a job and export the best of its checkpoints, also of one that has ended.

    A running job first saves its state, like for a pause; the next attempt scores and exports. It
    is the first of its priority in the queue, because this takes little time.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has succeeded, is being cancelled, trains no model or has no checkpoint.
    """
    job = get_job(session, job_id, lock=True)
    status = JobStatus(job.status)
    if not trains_model(job.task):
        message = f"a job of task {job.task} trains no model; cancel or pause it instead"
        if job.task == "script":
            message = (
                "a script cannot be finished early, because only the script knows how; cancel it, "
                "which keeps the files in its output folder as artifacts, or pause it"
            )
        raise Conflict(message, code="no_model")
    if job.phase in _EXPORT_PHASES or (job.is_finishing and not status.is_terminal):
        return job
    if status in (JobStatus.SUCCEEDED, JobStatus.CANCELLING):
        raise Conflict(f"the job is {status}; there is nothing to finish", code=f"job_{status}")
    if not _has_trained(session, job):
        message = "the job has not trained a step yet, so there is nothing to export; cancel it"
        raise Conflict(message, code="no_checkpoint")
    job.is_finishing = True
    put_first(session, job)
    if status is JobStatus.RUNNING:
        move(session, job, JobStatus.PAUSING, now=now, reason=FINISHING, kind="finishing")
    elif status is JobStatus.QUEUED or status is JobStatus.PAUSING:
        job.reason = FINISHING.model_dump(mode="json")
        note_event(session, job, "finishing", at=now)
    else:
        _refill_budgets(job)
        move(session, job, JobStatus.QUEUED, now=now, reason=FINISHING, kind="finishing")
    return job


def set_priority(session: Session, job_id: str, *, priority: int, now: datetime) -> Job:
    """Change the priority of a job that has not ended.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has ended.
    """
    job = get_job(session, job_id, lock=True)
    if JobStatus(job.status).is_terminal:
        raise Conflict(
            f"the job is {job.status}, so its priority can no longer be changed",
            code=f"job_{job.status}",
        )
    if job.priority != priority:
        job.priority = priority
        note_event(session, job, "priority", {"priority": priority}, at=now)
    return job


def move_beside(
    session: Session, job_id: str, *, other_id: str, is_before: bool, now: datetime
) -> Job:
    """Move a queued job directly before or after another, and give it the other's priority.

    Raises:
        NotFound: One of the jobs does not exist.
        Conflict: One of the jobs is not queued.
        Unprocessable: Both are the same job.
    """
    job = get_job(session, job_id, lock=True)
    if put_beside(session, job, other_id=other_id, is_before=is_before):
        side = "before" if is_before else "after"
        facts: dict[str, Any] = {side: other_id, "priority": job.priority}
        note_event(session, job, "moved", facts, at=now)
    return job


def list_checkpoints(session: Session, job_id: str) -> Sequence[CheckpointView]:
    """Return the checkpoints that a job can continue from, newest first.

    Raises:
        NotFound: There is no such job.
    """
    get_job(session, job_id)
    statement = select(Checkpoint).where(Checkpoint.job_id == job_id)
    rows = session.exec(statement.order_by(col(Checkpoint.step).desc())).all()
    return [
        CheckpointView(
            step=row.step,
            is_best=row.is_best,
            size_bytes=row.size_bytes,
            metrics=row.manifest.get("metrics", {}),
            created_at=row.created_at,
        )
        for row in rows
    ]


def _has_trained(session: Session, job: Job) -> bool:
    """Return whether there is, or will be once the trainer has stopped, a state to export."""
    statement = select(Checkpoint.id).where(Checkpoint.job_id == job.id, Checkpoint.step > 0)
    if session.exec(statement).first() is not None:
        return True
    is_running = job.status in (JobStatus.RUNNING, JobStatus.PAUSING)
    return is_running and job.progress is not None and job.progress["step"] > 0


def _refill_budgets(job: Job) -> None:
    job.failures_used = job.losses_used = job.deaths_at_step = 0
    job.deaths_step = None


def forget_checkpoints(session: Session, *, older_than_seconds: float) -> int:
    """Delete checkpoints of jobs that ended this long ago; return the number of jobs."""
    oldest = read_now(session) - timedelta(seconds=older_than_seconds)
    statement = (
        select(Job.id)
        .join(Checkpoint, col(Checkpoint.job_id) == col(Job.id))
        .where(col(Job.finished_at) < oldest)
        .distinct()
        .limit(_BATCH)
    )
    job_ids = session.exec(statement).all()
    for job_id in job_ids:
        drop_checkpoints(session, job_id)
    return len(job_ids)


FINISHING = Reason(
    code="finishing", message="stops training and exports the best so far", retryable=True
)
_EXPORT_PHASES = (Phase.EXPORTING, Phase.VERIFYING, Phase.UPLOADING)
PAUSED = Reason(code=FailureCode.PAUSED, message="paused by the user", retryable=True)
_BATCH = 200


def _choose_step(checkpoints: Sequence[CheckpointView], start: RetryFrom) -> int | None:
    """Return the step to continue from; None starts from scratch, like `newest` without any."""
    if start == "start" or (start == "newest" and not checkpoints):
        return None
    for checkpoint in checkpoints:
        if start in ("newest", checkpoint.step) or (start == "best" and checkpoint.is_best):
            return checkpoint.step
    known = ", ".join(str(checkpoint.step) for checkpoint in checkpoints)
    what = "best checkpoint" if start == "best" else f"checkpoint of step {start}"
    choice = f"choose one of its steps: {known}" if known else "use `start`"
    message = f"the job has no {what}; {choice}"
    raise Unprocessable(message, errors=[SpecProblem("/from", "no_such_checkpoint", message)])
