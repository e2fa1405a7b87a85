"""Gives a worker the best job that it can run, by priority, then place.

The writing transaction only takes a job that was chosen outside of it. Another claim may have taken
it first; so several are chosen, and the search is repeated when all of them are gone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from redkiln.protocol import BundleRef, CheckpointRef, ClaimRequest, ClaimResponse, InitialRef
from redkiln.status import AttemptStatus, JobStatus
from service.artifacts.models import Artifact
from service.attempts.choose import Choice, choose, require_current
from service.attempts.models import Attempt, Checkpoint
from service.attempts.tokens import make_token
from service.bundles.models import Bundle
from service.database import Database, read_now
from service.datasets.models import Dataset
from service.datasets.rules import dataset_ref
from service.gpus.held import awaits_release
from service.ids import new_id
from service.jobs.initial import find_initial, find_manifest
from service.jobs.lists.place import QUEUE_ORDER
from service.jobs.models import Job
from service.jobs.rules import get_job, move
from service.settings import Settings

_MOST_SEARCHES = 8


def claim(
    database: Database,
    settings: Settings,
    request: ClaimRequest,
    *,
    secret: bytes,
    key_id: str | None = None,
) -> ClaimResponse | None:
    """Start an attempt of the best job for the worker's free slots; None without a job.

    A repeated `claim_id` gets the same attempt, whatever its status is now. A worker that runs
    another release finishes its attempts but gets no new ones: it could not read newer specs.

    Args:
        database: The service's database.
        settings: Settings of the service.
        request: The worker's request.
        secret: Secret that the attempt's token is made with.
        key_id: Id of the worker's key; the attempt ends with it.

    Raises:
        Superseded: Another process has registered as this worker.
    """
    for _ in range(_MOST_SEARCHES):
        choice = database.read(lambda session: choose(session, settings, request))

        def take(session: Session, choice: Choice = choice) -> ClaimResponse | None:
            taken = _take(session, settings, request, choice)
            if taken is None:
                return None
            job, attempt = taken
            attempt.key_id = attempt.key_id or key_id
            return _answer(session, settings, job, attempt, secret=secret)

        claimed = database.write(take)
        if claimed is not None or not choice.job_ids:
            return claimed
    return None


def _take(
    session: Session, settings: Settings, request: ClaimRequest, choice: Choice
) -> tuple[Job, Attempt] | None:
    """Start an attempt of the first chosen job that is still queued, or find a repeated claim's."""
    now = read_now(session)
    worker = require_current(session, request, lock=True)
    worker.last_seen_at = now
    session.add(worker)
    known = session.exec(select(Attempt).where(Attempt.claim_id == request.claim_id)).first()
    if known is not None:
        return get_job(session, known.job_id), known
    if choice.has_gpu and awaits_release(session, worker):
        return None  # its owner has just asked for a GPU; the next search knows
    job = _lock_first(session, choice.job_ids)
    return None if job is None else (job, _start(session, settings, job, request, now=now))


def _lock_first(session: Session, job_ids: Sequence[str]) -> Job | None:
    """Lock and return the best of the jobs that are still queued.

    Only this job is locked, so that simultaneous claims find the jobs after it.
    """
    if not job_ids:
        return None
    return session.exec(
        select(Job)
        .where(col(Job.id).in_(job_ids), Job.status == JobStatus.QUEUED)
        .order_by(*QUEUE_ORDER)
        .limit(1)
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    ).first()


def _start(
    session: Session, settings: Settings, job: Job, request: ClaimRequest, *, now: datetime
) -> Attempt:
    job.fence += 1
    job.num_attempts += 1
    checkpoints = _list_checkpoints(session, job)
    resumed_from_step = checkpoints[0].step if checkpoints else None
    attempt = Attempt(
        id=new_id("att"),
        job_id=job.id,
        number=job.num_attempts,
        fence=job.fence,
        status=AttemptStatus.RUNNING,
        worker_id=request.worker_id,
        boot_id=request.boot_id,
        claim_id=request.claim_id,
        lease_until_at=now + timedelta(seconds=settings.lease_seconds),
        last_step=resumed_from_step,
        resumed_from_step=resumed_from_step,
        started_at=now,
    )
    session.add(attempt)
    facts: dict[str, Any] = {"number": attempt.number, "worker_id": attempt.worker_id}
    if resumed_from_step is not None:
        facts["resumed_from_step"] = resumed_from_step
    move(session, job, JobStatus.RUNNING, now=now, attempt_id=attempt.id, data=facts)
    session.flush()
    return attempt


def _answer(
    session: Session, settings: Settings, job: Job, attempt: Attempt, *, secret: bytes
) -> ClaimResponse:
    dataset = None if job.dataset_id is None else session.get_one(Dataset, job.dataset_id)
    return ClaimResponse(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=attempt.number,
        fence=attempt.fence,
        token=make_token(secret, attempt.id, fence=attempt.fence),
        spec=job.spec,
        dataset=None if dataset is None else dataset_ref(dataset, roots=settings.data_roots),
        bundle=_bundle_ref(session, job),
        initial=_file_ref(find_initial(session, job.spec)),
        manifest=_file_ref(find_manifest(session, job.spec)),
        checkpoints=[_checkpoint_ref(row) for row in _list_checkpoints(session, job)],
        is_finishing=job.is_finishing,
        lease_seconds=settings.lease_seconds,
        report_seconds=settings.report_seconds,
        max_duration_seconds=job.spec["resources"]["max_duration_seconds"],
    )


def _bundle_ref(session: Session, job: Job) -> BundleRef | None:
    if job.bundle_sha256 is None:
        return None
    bundle = session.get_one(Bundle, job.bundle_sha256)
    return BundleRef(sha256=bundle.sha256, size_bytes=bundle.size_bytes)


def _file_ref(artifact: Artifact | None) -> InitialRef | None:
    if artifact is None:
        return None
    return InitialRef(
        job_id=artifact.job_id, sha256=artifact.sha256, size_bytes=artifact.size_bytes
    )


def _list_checkpoints(session: Session, job: Job) -> Sequence[Checkpoint]:
    """Return the job's checkpoints, newest first; the worker falls back if one is damaged.

    A retry from a step has already removed the later ones.
    """
    is_new = job.spec.get("script", {}).get("start_from") is None
    if job.fence <= 1 and is_new:
        return ()  # this is the first attempt
    statement = select(Checkpoint).where(Checkpoint.job_id == job.id)
    return session.exec(statement.order_by(col(Checkpoint.step).desc())).all()


def _checkpoint_ref(row: Checkpoint) -> CheckpointRef:
    return CheckpointRef(
        step=row.step,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        manifest=row.manifest,
        is_best=row.is_best,
    )
