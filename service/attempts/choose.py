"""Chooses the queued jobs that a worker can run, best first, without reading their specs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.failure import FailureCode
from redkiln.protocol import ClaimRequest
from redkiln.version import __version__
from service.attempts.models import Attempt
from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.readable import has_what_it_reads
from service.errors import Superseded
from service.gpus.held import awaits_release
from service.jobs.lists.place import QUEUE_ORDER, is_behind
from service.jobs.models import IS_QUEUED, JOB, Job
from service.settings import Settings
from service.workers.eligibility import devices_for, fits, has_packages, holds_back
from service.workers.models import Worker
from service.workers.needs import needs_of
from service.workers.rules import has_live_gpu, usable_arches

FAULT_REST_SECONDS = 60.0
"""Time after a fault of a worker in which only other workers get the job."""
MOST_CHOSEN = 32
"""Jobs that a search chooses, for claims that run at the same time and take the first ones."""
FIRST_PAGE, LATER_PAGES = 40, 1000
"""Rows that are read at once: most searches end within the first page."""
MOST_NEEDS = 100
"""Most different needs by which later pages are limited to jobs that may fit."""
_COLUMNS = (
    *(JOB.c.id, JOB.c.priority, JOB.c.place, JOB.c.needs, JOB.c.created_at, JOB.c.failures_used),
)


@dataclass(frozen=True)
class Choice:
    """Queued jobs that a worker can run, best first.

    Attributes:
        has_gpu: Whether they may run on a GPU.
    """

    job_ids: Sequence[str] = ()
    has_gpu: bool = False


def choose(session: Session, settings: Settings, request: ClaimRequest) -> Choice:
    """Return the best jobs for the worker's free slots.

    Raises:
        Superseded: Another process has registered as this worker.
    """
    worker = require_current(session, request)
    if worker.version != __version__:
        return Choice()
    if "gpu" in request.devices and awaits_release(session, worker):
        # One of its free GPUs may be the one that its owner wants.
        slots = [slot for slot in request.devices if slot == "cpu"]
        request = request.model_copy(update={"devices": slots, "arches": []})
    found = _suitable(session, settings, request, worker, now=read_now(session))
    return Choice(list(islice(found, MOST_CHOSEN)), has_gpu="gpu" in request.devices)


def _suitable(
    session: Session, settings: Settings, request: ClaimRequest, worker: Worker, *, now: datetime
) -> Iterator[str]:
    """Yield the ids of the jobs that the worker can run, up to one that it is held back for."""
    any_live_gpu = "cpu" in request.devices and has_live_gpu(session, settings)
    devices = devices_for(request.devices, any_live_gpu=any_live_gpu)
    usable = cache(lambda: usable_arches(session, worker))

    @lru_cache
    def judge(needs: str) -> tuple[dict[str, Any], bool]:
        needed = json.loads(needs)
        return needed, fits(needed, slots=request.devices, arches=request.arches)

    def may_end_search(needs: str) -> bool:
        if not needs:
            return True
        needed, is_fit = judge(needs)
        return is_fit or needed["gpus"] > 1

    for job in _queued(session, devices, may_end_search):
        # A service of the previous release, on the same database, queues jobs without it.
        needed, is_fit = judge(job.needs or needs_of(session.get_one(Job, job.id)))
        packages = frozenset(needed["packages"])
        if packages & set(request.busy) or not has_packages(packages, worker.packages):
            continue
        if job.failures_used and _is_resting(session, job.id, worker.id, now=now):
            continue
        if is_fit:
            yield job.id
        elif needed["gpus"] > 1:
            waited_seconds = (now - job.created_at).total_seconds()
            if holds_back(needed, waited_seconds=waited_seconds, usable=usable()):
                return


def _queued(
    session: Session, devices: set[str], may_matter: Callable[[str], bool]
) -> Iterator[sa.Row[Any]]:
    """Yield what a claim reads of the queued jobs for one of the devices, best first.

    Behind the first page only jobs whose needs may matter come: the database passes over thousands
    for other GPUs faster than this process.
    """
    is_open = sa.and_(IS_QUEUED, JOB.c.device.in_(sorted(devices)))
    statement = (
        sa.select(*_COLUMNS)
        .join(Dataset, col(Dataset.id) == JOB.c.dataset_id, isouter=True)
        .where(is_open, has_what_it_reads())
        .order_by(*QUEUE_ORDER)
    )
    page, size = statement, FIRST_PAGE
    while True:
        rows = session.execute(page.limit(size)).all()
        yield from rows
        if len(rows) < size:
            return
        if size == FIRST_PAGE:
            statement = statement.where(_has_needs_that(may_matter, session, is_open))
        last, size = rows[-1], LATER_PAGES
        page = statement.where(is_behind(last.priority, last.place, last.id))


def _has_needs_that(
    may_matter: Callable[[str], bool], session: Session, is_open: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition that a job's needs may matter; true for all if there are too many."""
    different = sa.select(JOB.c.needs).where(is_open).distinct().limit(MOST_NEEDS + 1)
    found = session.scalars(different).all()
    if len(found) > MOST_NEEDS:
        return sa.true()
    return JOB.c.needs.in_([needs for needs in found if may_matter(needs)])


def _is_resting(session: Session, job_id: str, worker_id: str, *, now: datetime) -> bool:
    """Whether a fault of this worker has just ended the job: another worker may do better."""
    newest = select(Attempt).where(Attempt.job_id == job_id).order_by(col(Attempt.number).desc())
    last = session.exec(newest.limit(1)).first()
    if last is None or last.worker_id != worker_id or last.finished_at is None:
        return False
    is_fault = (last.failure or {}).get("code") == FailureCode.WORKER_FAULT
    return is_fault and (now - last.finished_at).total_seconds() < FAULT_REST_SECONDS


def require_current(session: Session, request: ClaimRequest, *, lock: bool = False) -> Worker:
    """Return the worker that sends a request.

    Raises:
        Superseded: Another process has registered as this worker.
    """
    worker = session.get(Worker, request.worker_id, with_for_update=True if lock else None)
    if worker is None or worker.boot_id != request.boot_id:
        raise Superseded("this worker is unknown or has restarted; send hello first")
    return worker
