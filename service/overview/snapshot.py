"""Reads what an overview shows; `project` is the only one to show, None all of them."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, func, select

from redkiln.status import AttemptStatus, JobStatus
from redkiln.version import __version__
from redkiln.views.doctor import Diagnosis
from redkiln.views.hardware import WorkerGpu
from redkiln.views.job import JobSummary
from redkiln.views.overview import Disk, DoctorLine, Health, OverviewGpu, RunningJob
from service.attempts.models import Attempt
from service.database import read_now
from service.gpus.owners import hide_jobs
from service.gpus.rules import list_gpus
from service.jobs.lists.listing import Filters, Order, list_summaries
from service.jobs.models import JOB, Job
from service.overview.sparklines import Sparklines
from service.services import Services
from service.workers.models import Worker
from service.workers.rules import live_seconds

MOST_RUNNING = 50
MOST_WAITING = 50
"""Of the queued jobs and of the paused ones; a long queue does not hide those."""
MOST_ENDED = 20
_ROUND_BYTES = 16 * 1024**2
"""Free space is rounded down to this, so that it does not change with every log line."""
_ACTIVE = (JobStatus.RUNNING, JobStatus.PAUSING, JobStatus.CANCELLING)
_COUNTS = sa.select(JOB.c.status, func.count()).group_by(JOB.c.status)


def read_counts(services: Services, project: str | None) -> dict[str, int]:
    """Return the number of jobs by status, with 0 for a status that no job has."""
    counted = _COUNTS if project is None else _COUNTS.where(JOB.c.project == project)
    found = dict(map(tuple, services.database.execute_read(counted)))
    return {str(status): found.get(status, 0) for status in JobStatus}


def read_waiting(services: Services, project: str | None) -> list[JobSummary]:
    """Return the queued jobs in the order of the queue, then the paused ones, newest first."""
    database = services.database
    queued = list_summaries(
        database, Filters(project=project), order=Order("queue"), limit=MOST_WAITING
    )
    is_paused = Filters(statuses=[JobStatus.PAUSED], project=project)
    paused = list_summaries(database, is_paused, limit=MOST_WAITING)
    return [*queued, *paused]


def read_ended(services: Services, project: str | None) -> list[JobSummary]:
    """Return the jobs that ended last, newest first."""
    order = Order("ended", is_descending=True)
    own = Filters(project=project)
    return list_summaries(services.database, own, order=order, limit=MOST_ENDED)


def read_running(
    services: Services,
    project: str | None,
    gpus: Sequence[WorkerGpu],
    sparklines: Sparklines,
) -> list[RunningJob]:
    """Return the jobs that workers run or stop, longest running first."""
    oldest = Order("created")
    active = Filters(statuses=_ACTIVE, project=project)
    listed = list_summaries(services.database, active, order=oldest, limit=MOST_RUNNING)
    attempts = services.database.read(
        lambda session: _describe_attempts(session, [job.id for job in listed])
    )
    gpu_ids: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.job_id is not None:
            gpu_ids.setdefault(gpu.job_id, []).append(gpu.id)
    curves = sparklines.read(listed)
    return [
        RunningJob(
            **dict(job),
            **attempts.get(job.id, {}),
            gpu_ids=gpu_ids.get(job.id, []),
            sparkline=curves.get(job.id),
        )
        for job in listed
    ]


def read_gpus(services: Services, project: str | None) -> list[OverviewGpu]:
    """Return the GPUs of the live workers with the names of their jobs."""

    def read(session: Session) -> list[OverviewGpu]:
        gpus = hide_jobs(session, list_gpus(session, services.settings), project=project)
        job_ids = {gpu.job_id for gpu in gpus if gpu.job_id is not None}
        named = select(Job.id, Job.name).where(col(Job.id).in_(job_ids))
        names: Mapping[str, str] = dict(session.exec(named).all()) if job_ids else {}
        return [OverviewGpu(**dict(gpu), job_name=names.get(gpu.job_id or "")) for gpu in gpus]

    return services.database.read(read)


def read_disk(services: Services) -> Disk:
    """Return the space on the disk of the state folder."""
    usage = shutil.disk_usage(services.settings.state_dir)
    return Disk(
        free_bytes=usage.free // _ROUND_BYTES * _ROUND_BYTES,
        total_bytes=usage.total,
        reserved_bytes=services.settings.min_free_bytes,
    )


def read_health(services: Services) -> Health:
    """Return whether workers are live, and the state of the broker."""

    def read(session: Session) -> tuple[int, int]:
        oldest = read_now(session) - timedelta(seconds=live_seconds(services.settings))
        live = sa.func.sum(sa.case((col(Worker.last_seen_at) >= oldest, 1), else_=0))
        known, num_live = session.execute(sa.select(func.count(), live).select_from(Worker)).one()
        return known, num_live or 0

    num_workers, num_live = services.database.read(read)
    return Health(
        version=__version__,
        broker=services.doorbell.state,
        num_live_workers=num_live,
        num_workers=num_workers,
        is_ready=num_live > 0,
    )


def first_line(diagnosis: Diagnosis) -> DoctorLine:
    """Return the first thing to fix of a diagnosis: what blocks jobs, else what slows them."""
    reports = [diagnosis.service, *(w.report for w in diagnosis.workers if w.report is not None)]
    bad = [
        (check.severity != "blocks", report.hostname, check)
        for report in reports
        for check in report.checks
        if check.verdict == "bad" and check.severity != "note"
    ]
    if not bad:
        return DoctorLine(verdict=diagnosis.verdict)
    _, hostname, check = min(bad, key=lambda item: item[0])
    cause = f" ({check.cause})" if check.cause else ""
    return DoctorLine(
        verdict=diagnosis.verdict,
        hostname=hostname,
        line=f"{check.title}: {check.evidence}{cause}",
        fix=check.fix or None,
    )


def _describe_attempts(session: Session, job_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the worker that runs each job, since when, and how long earlier attempts ran."""
    statement = (
        select(Attempt, Worker.hostname)
        .join(Worker, col(Worker.id) == col(Attempt.worker_id))
        .where(col(Attempt.job_id).in_(job_ids))
    )
    found: dict[str, dict[str, Any]] = {job_id: {"earlier_seconds": 0.0} for job_id in job_ids}
    for attempt, hostname in session.exec(statement):
        described = found[attempt.job_id]
        if attempt.status == AttemptStatus.RUNNING:
            described["worker_id"] = attempt.worker_id
            described["hostname"] = hostname
            described["attempt_started_at"] = attempt.started_at
        elif attempt.finished_at is not None:
            ran = attempt.finished_at - attempt.started_at
            described["earlier_seconds"] += ran.total_seconds()
    return found
