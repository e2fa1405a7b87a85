"""Ends an attempt at its worker's request: publishes and moves the job in one transaction."""

import hashlib

from sqlmodel import Session

from redkiln.failure import FailureCode, JobFailure
from redkiln.protocol import FinishRequest, FinishResponse
from redkiln.status import AttemptStatus, JobStatus
from service.artifacts.rules import find_own, publish
from service.attempts import ending
from service.attempts.fencing import hold_fence
from service.attempts.models import Attempt
from service.database import read_now
from service.errors import Conflict, SequenceGap, Superseded, Unprocessable
from service.jobs.models import Job
from service.jobs.outcome import record_outcome
from service.jobs.rules import get_job
from service.settings import Settings
from service.storage import Storage


def finish(
    session: Session,
    settings: Settings,
    storage: Storage,
    *,
    attempt_id: str,
    fence: int,
    request: FinishRequest,
) -> FinishResponse:
    """End an attempt; a repeated request gets the same answer.

    Raises:
        Superseded: The attempt has already ended.
        Conflict: The attempt finished with a different request.
        SequenceGap: Events are missing.
        Unprocessable: A successful attempt lists no artifacts, or their bytes are not stored.
    """
    digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
    answered = _find_answer(session, attempt_id, fence=fence, digest=digest)
    if answered is not None:
        return answered
    attempt = hold_fence(session, attempt_id, fence=fence, lease_seconds=settings.lease_seconds)
    if request.last_seq > attempt.last_seq:
        raise SequenceGap(expected_seq=attempt.last_seq + 1)
    job = _settle(session, storage, attempt, request)
    attempt.finish_sha256, attempt.finish_status = digest, job.status
    session.add(attempt)
    return FinishResponse(job_status=job.status)


def _find_answer(
    session: Session, attempt_id: str, *, fence: int, digest: str
) -> FinishResponse | None:
    attempt = session.get(Attempt, attempt_id, with_for_update=True)
    if attempt is None or attempt.finish_sha256 is None or attempt.fence != fence:
        return None
    if attempt.finish_sha256 != digest:
        message = "this attempt already finished with a different request"
        raise Conflict(message, code="already_finished")
    assert attempt.finish_status is not None
    return FinishResponse(job_status=attempt.finish_status)


def _settle(session: Session, storage: Storage, attempt: Attempt, request: FinishRequest) -> Job:
    now = read_now(session)
    job = get_job(session, attempt.job_id, lock=True)
    if request.outcome == "released":
        return ending.give_back(session, attempt, now=now, failure=request.failure)
    if request.outcome == "paused":
        return ending.pause(session, attempt, now=now)
    if request.outcome == "cancelled":
        return ending.stop(session, attempt, now=now)
    if request.outcome == "failed":
        failure = request.failure or JobFailure.of(
            FailureCode.INTERNAL, "the worker reported no cause; look in the worker's log"
        )
        own = find_own(session, job.id, attempt.id, request.artifacts)
        job = ending.fail(session, attempt, failure, now=now)
        if job.status == JobStatus.FAILED:
            publish(session, storage, job.id, attempt.id, request.artifacts, own=own)
            record_outcome(session, job)
        return job
    if not request.artifacts:
        message = "a successful attempt must list its artifacts"
        raise Unprocessable(message, code="no_artifacts")
    if job.status in (JobStatus.RUNNING, JobStatus.PAUSING):
        publish(session, storage, job.id, attempt.id, request.artifacts)
    elif job.status != JobStatus.CANCELLING:
        message = f"the job is {job.status}; stop the attempt"
        raise Superseded(message, attempt_status=AttemptStatus(attempt.status))
    return ending.succeed(session, attempt, now=now)
