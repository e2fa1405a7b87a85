"""Gives a worker the best job that it can run, by priority, then place.

The job is chosen outside of the writing transaction, which only takes it. Another claim may take it
first; so several are chosen, and the search is repeated when all of them are gone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.failure import FailureCode
from redkiln.protocol import BundleRef, CheckpointRef, ClaimRequest, ClaimResponse, InitialRef
from redkiln.status import AttemptStatus, JobStatus
from redkiln.version import __version__
from service.artifacts.models import Artifact
from service.attempts.models import Attempt, Checkpoint
from service.attempts.tokens import make_token
from service.bundles.models import Bundle
from service.database import Database, read_now
from service.datasets.models import Dataset
from service.datasets.rules import dataset_ref, has_what_it_reads
from service.errors import Superseded
from service.gpus.held import awaits_release
from service.ids import new_id
from service.jobs.initial import find_initial, find_manifest
from service.jobs.lists.place import QUEUE_ORDER, is_behind
from service.jobs.models import IS_QUEUED, JOB, Job
from service.jobs.rules import get_job, move
from service.settings import Settings
from service.workers.eligibility import devices_for, fits, has_packages, holds_back
from service.workers.models import Worker
from service.workers.rules import live_machines, usable_arches

FAULT_REST_SECONDS = 60.0
"""Time after a fault of a worker in which only other workers get the job."""
MOST_CHOSEN = 32
"""Jobs that a search chooses, for claims that run at the same time and take the first ones."""
_MOST_SEARCHES = 8
_BATCH = 500
_CLAIM_COLUMNS = (
    *(JOB.c.id, JOB.c.priority, JOB.c.place, JOB.c.needs, JOB.c.created_at, JOB.c.failures_used),
)


@dataclass(frozen=True)
class Choice:
    """Queued jobs that a worker can run, best first.

    Attributes:
        without_gpu: Whether the worker may get no job for a GPU now, because it must keep one free.
    """

    job_ids: Sequence[str] = ()
    without_gpu: bool = False


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
            attempt = _take(session, settings, request, choice)
            if attempt is None:
                return None
            attempt.key_id = attempt.key_id or key_id
            return _answer(session, settings, attempt, secret=secret)

        claimed = database.write(take)
        if claimed is not None or not choice.job_ids:
            return claimed
    return None


def choose(session: Session, settings: Settings, request: ClaimRequest) -> Choice:
    """Return the best jobs for the worker's free slots.

    Raises:
        Superseded: Another process has registered as this worker.
    """
    worker = _require_current(session, request)
    if worker.version != __version__:
        return Choice()
    without_gpu = awaits_release(session, worker)
    if without_gpu:
        # One of its free GPUs may be the one that its owner wants.
        slots = [slot for slot in request.devices if slot == "cpu"]
        request = request.model_copy(update={"devices": slots, "arches": []})
    found = _suitable(session, settings, request, worker, now=read_now(session))
    return Choice(list(islice(found, MOST_CHOSEN)), without_gpu)


def _suitable(
    session: Session, settings: Settings, request: ClaimRequest, worker: Worker, *, now: datetime
) -> Iterator[str]:
    """Yield the ids of the jobs that the worker can run, up to one that it is held back for."""
    any_live_gpu = any(machine.has_gpu for machine in live_machines(session, settings))
    devices = devices_for(request.devices, any_live_gpu=any_live_gpu)
    usable = usable_arches(session, worker)

    @lru_cache
    def judge(needs: str) -> tuple[dict[str, Any], bool]:
        needed = json.loads(needs)
        return needed, fits(needed, slots=request.devices, arches=request.arches)

    for job in _queued(session, devices):
        needed, is_fit = judge(job.needs)
        if not has_packages(frozenset(needed["packages"]), worker.packages):
            continue
        if job.failures_used and _is_resting(session, job.id, worker.id, now=now):
            continue
        if is_fit:
            yield job.id
        else:
            waited_seconds = (now - job.created_at).total_seconds()
            if holds_back(needed, waited_seconds=waited_seconds, usable=usable):
                return


def _queued(session: Session, devices: set[str]) -> Iterator[sa.Row[Any]]:
    """Yield what a claim reads of the queued jobs for one of the devices, best first."""
    statement = (
        sa.select(*_CLAIM_COLUMNS)
        .join(Dataset, col(Dataset.id) == JOB.c.dataset_id, isouter=True)
        .where(IS_QUEUED, JOB.c.device.in_(sorted(devices)), has_what_it_reads())
        .order_by(*QUEUE_ORDER)
        .limit(_BATCH)
    )
    page = statement
    while True:
        rows = session.execute(page).all()
        yield from rows
        if len(rows) < _BATCH:
            return
        last = rows[-1]
        page = statement.where(is_behind(last.priority, last.place, last.id))


def _is_resting(session: Session, job_id: str, worker_id: str, *, now: datetime) -> bool:
    """Whether a fault of this worker has just ended the job: another worker may do better."""
    newest = select(Attempt).where(Attempt.job_id == job_id).order_by(col(Attempt.number).desc())
    last = session.exec(newest.limit(1)).first()
    if last is None or last.worker_id != worker_id or last.finished_at is None:
        return False
    is_fault = (last.failure or {}).get("code") == FailureCode.WORKER_FAULT
    return is_fault and (now - last.finished_at).total_seconds() < FAULT_REST_SECONDS


def _take(
    session: Session, settings: Settings, request: ClaimRequest, choice: Choice
) -> Attempt | None:
    """Start an attempt of the first chosen job that is still queued, or find a repeated claim's."""
    now = read_now(session)
    worker = _require_current(session, request, lock=True)
    worker.last_seen_at = now
    session.add(worker)
    known = session.exec(select(Attempt).where(Attempt.claim_id == request.claim_id)).first()
    if known is not None:
        return known
    if not choice.without_gpu and awaits_release(session, worker):
        return None  # its owner has just asked for a GPU; the next search knows
    job = _lock_first(session, choice.job_ids)
    return None if job is None else _start(session, settings, job, request, now=now)


def _require_current(session: Session, request: ClaimRequest, *, lock: bool = False) -> Worker:
    worker = session.get(Worker, request.worker_id, with_for_update=True if lock else None)
    if worker is None or worker.boot_id != request.boot_id:
        raise Superseded("this worker is unknown or has restarted; send hello first")
    return worker


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
