"""Gives a worker the best job that it can run, by priority, then place."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from redkiln.failure import FailureCode
from redkiln.protocol import BundleRef, CheckpointRef, ClaimRequest, ClaimResponse, InitialRef
from redkiln.status import AttemptStatus, JobStatus
from redkiln.version import __version__
from service.artifacts.models import Artifact
from service.attempts.models import Attempt, Checkpoint
from service.attempts.tokens import make_token
from service.bundles.models import Bundle
from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.rules import dataset_ref, has_what_it_reads
from service.errors import Superseded
from service.gpus.held import awaits_release
from service.ids import new_id
from service.jobs.initial import find_initial, find_manifest
from service.jobs.lists.place import QUEUE_ORDER, is_behind
from service.jobs.models import Job
from service.jobs.rules import get_job, move
from service.settings import Settings
from service.workers.eligibility import (
    devices_for,
    fits,
    has_packages,
    holds_back,
    list_needed,
)
from service.workers.models import Worker
from service.workers.rules import live_machines, usable_arches

FAULT_REST_SECONDS = 60.0
"""Time after a fault of a worker in which only other workers get the job."""
_BATCH = 100


def claim(
    session: Session,
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
        session: A writing transaction.
        settings: Settings of the service.
        request: The worker's request.
        secret: Secret that the attempt's token is made with.
        key_id: Id of the worker's key; the attempt ends with it.

    Raises:
        Superseded: Another process has registered as this worker.
    """
    now = read_now(session)
    worker = _require_current(session, request, now)
    known = session.exec(select(Attempt).where(Attempt.claim_id == request.claim_id)).first()
    if known is not None:
        return _answer(session, settings, known, secret=secret)
    if worker.version != __version__:
        return None
    if awaits_release(session, worker):
        # One of its free GPUs may be the one that its owner wants.
        if "cpu" not in request.devices:
            return None
        request = request.model_copy(update={"devices": ["cpu"], "arches": []})
    usable = usable_arches(session, worker)
    job = _find_best(session, settings, request, usable=usable, now=now)
    if job is None:
        return None
    attempt = _start(session, settings, job, request, now=now)
    attempt.key_id = key_id
    return _answer(session, settings, attempt, secret=secret)


def _require_current(session: Session, request: ClaimRequest, now: datetime) -> Worker:
    worker = session.get(Worker, request.worker_id, with_for_update=True)
    if worker is None or worker.boot_id != request.boot_id:
        raise Superseded("this worker is unknown or has restarted; send hello first")
    worker.last_seen_at = now
    session.add(worker)
    return worker


def _find_best(
    session: Session,
    settings: Settings,
    request: ClaimRequest,
    *,
    usable: Sequence[str | None],
    now: datetime,
) -> Job | None:
    any_live_gpu = any(machine.has_gpu for machine in live_machines(session, settings))
    devices = devices_for(request.devices, any_live_gpu=any_live_gpu)
    packages = session.get_one(Worker, request.worker_id).packages
    for job in _queued(session, devices):
        resources = job.spec["resources"]
        waited_seconds = (now - job.created_at).total_seconds()
        if _is_resting(session, job, request.worker_id, now=now):
            continue
        needed = list_needed(job.resolved_spec or job.spec)
        if needed & set(request.busy) or not has_packages(needed, packages):
            continue
        if fits(resources, slots=request.devices, arches=request.arches):
            locked = _lock_queued(session, job.id)
            if locked is not None:
                return locked
        elif holds_back(resources, waited_seconds=waited_seconds, usable=usable):
            return None
    return None


def _is_resting(session: Session, job: Job, worker_id: str, *, now: datetime) -> bool:
    """Whether a fault of this worker has just ended the job: another worker may do better."""
    if job.failures_used == 0:
        return False
    newest = select(Attempt).where(Attempt.job_id == job.id).order_by(col(Attempt.number).desc())
    last = session.exec(newest.limit(1)).first()
    if last is None or last.worker_id != worker_id or last.finished_at is None:
        return False
    is_fault = (last.failure or {}).get("code") == FailureCode.WORKER_FAULT
    return is_fault and (now - last.finished_at).total_seconds() < FAULT_REST_SECONDS


def _queued(session: Session, devices: set[str]) -> Iterator[Job]:
    """Yield the queued jobs that may run on one of the devices, best first."""
    statement = (
        select(Job)
        .join(Dataset, col(Dataset.id) == col(Job.dataset_id), isouter=True)
        .where(
            Job.status == JobStatus.QUEUED,
            col(Job.device).in_(sorted(devices)),
            has_what_it_reads(),
        )
        .order_by(*QUEUE_ORDER)
        .limit(_BATCH)
    )
    last: Job | None = None
    while True:
        page = statement
        if last is not None:
            page = statement.where(is_behind(last.priority, last.place, last.id))
        jobs = session.exec(page).all()
        yield from jobs
        if len(jobs) < _BATCH:
            return
        last = jobs[-1]


def _lock_queued(session: Session, job_id: str) -> Job | None:
    """Lock and return the job; None if another claim has it.

    Only the chosen job is locked, so that simultaneous claims find the jobs after it.
    """
    return session.exec(
        select(Job)
        .where(Job.id == job_id, Job.status == JobStatus.QUEUED)
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    ).first()


def _start(
    session: Session, settings: Settings, job: Job, request: ClaimRequest, *, now: datetime
) -> Attempt:
    checkpoint = _newest_checkpoint(session, job.id)
    resumed_from_step = None if checkpoint is None else checkpoint.step
    job.fence += 1
    job.num_attempts += 1
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
    session: Session, settings: Settings, attempt: Attempt, *, secret: bytes
) -> ClaimResponse:
    job = get_job(session, attempt.job_id)
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
        checkpoints=_checkpoint_refs(session, job.id),
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


def _newest_checkpoint(session: Session, job_id: str) -> Checkpoint | None:
    statement = select(Checkpoint).where(Checkpoint.job_id == job_id)
    return session.exec(statement.order_by(col(Checkpoint.step).desc()).limit(1)).first()


def _checkpoint_refs(session: Session, job_id: str) -> list[CheckpointRef]:
    """Return the job's checkpoints, newest first; the worker falls back if one is damaged.

    A retry from a step has already removed the later ones.
    """
    statement = select(Checkpoint).where(Checkpoint.job_id == job_id)
    rows = session.exec(statement.order_by(col(Checkpoint.step).desc())).all()
    return [
        CheckpointRef(
            step=row.step,
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            manifest=row.manifest,
            is_best=row.is_best,
        )
        for row in rows
    ]
