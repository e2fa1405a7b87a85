"""Ends attempts and changes their jobs' status as `service.jobs.retry` decides."""

from datetime import datetime

from sqlmodel import Session

from redkiln.failure import FailureCode, JobFailure
from redkiln.status import AttemptStatus, JobStatus
from redkiln.views.job import Reason
from service.attempts.models import Attempt
from service.blobs.rules import release as release_blobs
from service.jobs.models import Job
from service.jobs.retry import Budgets, RetryDecision, judge_failure, judge_loss
from service.jobs.rules import get_job, move
from service.jobs.steering import FINISHING, PAUSED

CANCELLED = Reason(code=FailureCode.CANCELLED, message="cancelled by the user")


def lose(session: Session, attempt: Attempt, *, now: datetime, message: str) -> None:
    """End an attempt whose worker is gone; requeue its job within the retry budget."""
    failure = JobFailure.of(FailureCode.WORKER_LOST, message)
    job = _end(session, attempt, AttemptStatus.LOST, now=now, failure=failure)
    verdict = judge_loss(_budgets(job), last_step=attempt.last_step, message=message)
    _apply(session, job, verdict, attempt=attempt, now=now)


def fail(session: Session, attempt: Attempt, failure: JobFailure, *, now: datetime) -> Job:
    """End an attempt that failed; requeue its job if a retry can help."""
    job = _end(session, attempt, AttemptStatus.FAILED, now=now, failure=failure)
    _apply(session, job, judge_failure(_budgets(job), failure), attempt=attempt, now=now)
    return job


def give_back(
    session: Session, attempt: Attempt, *, now: datetime, failure: JobFailure | None = None
) -> Job:
    """End an attempt that its worker cannot continue; requeue its job at no cost to its budget."""
    if failure is None or failure.code != FailureCode.GPU_BUSY:
        message = "the worker shut down and returned the job to the queue"
        failure = JobFailure.of(FailureCode.WORKER_SHUTDOWN, message)
    job = _end(session, attempt, AttemptStatus.RELEASED, now=now, failure=failure)
    reason = Reason(code=failure.code, message=failure.message, retryable=True)
    _apply(session, job, RetryDecision(True, reason, _budgets(job)), attempt=attempt, now=now)
    return job


def succeed(session: Session, attempt: Attempt, *, now: datetime) -> Job:
    """End an attempt whose artifacts are published; an earlier cancel wins."""
    job = get_job(session, attempt.job_id, lock=True)
    is_cancelled = job.status == JobStatus.CANCELLING
    status = AttemptStatus.CANCELLED if is_cancelled else AttemptStatus.SUCCEEDED
    _end(session, attempt, status, now=now, failure=None)
    to, reason = (JobStatus.CANCELLED, CANCELLED) if is_cancelled else (JobStatus.SUCCEEDED, None)
    move(session, job, to, now=now, reason=reason, attempt_id=attempt.id)
    return job


def pause(session: Session, attempt: Attempt, *, now: datetime) -> Job:
    """End an attempt that has saved its checkpoint; requeue its job if no pause was requested."""
    job = get_job(session, attempt.job_id, lock=True)
    if job.status == JobStatus.CANCELLING:
        return stop(session, attempt, now=now)
    if job.status != JobStatus.PAUSING:
        return give_back(session, attempt, now=now)
    _end(session, attempt, AttemptStatus.PAUSED, now=now, failure=None)
    to, reason = _after_pause(job)
    move(session, job, to, now=now, reason=reason, attempt_id=attempt.id)
    return job


def stop(session: Session, attempt: Attempt, *, now: datetime) -> Job:
    """End an attempt that its worker stopped; requeue its job if no cancel was requested."""
    job = get_job(session, attempt.job_id, lock=True)
    if job.status != JobStatus.CANCELLING:
        return give_back(session, attempt, now=now)
    _end(session, attempt, AttemptStatus.CANCELLED, now=now, failure=None)
    move(session, job, JobStatus.CANCELLED, now=now, reason=CANCELLED, attempt_id=attempt.id)
    return job


def _end(
    session: Session,
    attempt: Attempt,
    status: AttemptStatus,
    *,
    now: datetime,
    failure: JobFailure | None,
) -> Job:
    attempt.status = status
    attempt.finished_at = now
    attempt.failure = None if failure is None else failure.model_dump(mode="json")
    session.add(attempt)
    # The index that allows one running attempt per job must see the end before a new one starts.
    session.flush()
    release_blobs(session, holder=attempt.id)
    return get_job(session, attempt.job_id, lock=True)


def _apply(
    session: Session, job: Job, verdict: RetryDecision, *, attempt: Attempt, now: datetime
) -> None:
    budgets = verdict.budgets
    job.failures_used, job.losses_used = budgets.failures_used, budgets.losses_used
    job.deaths_step, job.deaths_at_step = budgets.deaths_step, budgets.deaths_at_step
    to, reason = JobStatus.FAILED, verdict.reason
    if job.status == JobStatus.CANCELLING:
        to, reason = JobStatus.CANCELLED, CANCELLED
    elif verdict.should_requeue and job.status == JobStatus.PAUSING:
        to, reason = _after_pause(job)
    elif verdict.should_requeue:
        to = JobStatus.QUEUED
    move(session, job, to, now=now, reason=reason, attempt_id=attempt.id)


def _after_pause(job: Job) -> tuple[JobStatus, Reason]:
    """Return the next status of a job whose trainer has stopped: only a finishing one continues."""
    return (JobStatus.QUEUED, FINISHING) if job.is_finishing else (JobStatus.PAUSED, PAUSED)


def _budgets(job: Job) -> Budgets:
    retry = job.spec["retry"]
    return Budgets(
        max_failures=retry["failures"],
        max_losses=retry["lost_workers"],
        failures_used=job.failures_used,
        losses_used=job.losses_used,
        deaths_step=job.deaths_step,
        deaths_at_step=job.deaths_at_step,
    )
