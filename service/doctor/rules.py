"""Gathers facts about the service and its workers, and runs the checks on them."""

import platform
import shutil
import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, func, select

from redkiln.status import JobStatus
from redkiln.version import __version__
from redkiln.views.doctor import Diagnosis, DoctorReport, WorkerDoctor, worst_verdict
from redkiln.views.hardware import DoctorCheck
from redkiln.views.self_test import SelfTestReport
from redkiln.views.worker import EngineDevice
from service.database import read_now
from service.doctor.checks import ServiceFacts, WorkerFacts, examine_service, find_skew
from service.jobs.models import Job
from service.settings import Settings
from service.workers.models import Worker, WorkerStatus
from service.workers.rules import SAME_BOOT, get_worker, live_seconds

_RANKS = {"blocks": 0, "slows": 1, "note": 2}


def diagnose(session: Session, settings: Settings, *, broker: str) -> Diagnosis:
    """Diagnose what stops jobs from running, on the service and on each live worker.

    Args:
        session: Reading session.
        settings: The service's settings.
        broker: State of the doorbell.
    """
    now = read_now(session)
    rows = _list_live(session, settings, now=now)
    facts = _gather(session, settings, rows, broker=broker)
    service = DoctorReport(
        at=now,
        hostname=socket.gethostname(),
        versions={"redkiln": __version__, "python": platform.python_version()},
        checks=sorted(examine_service(facts), key=_rank),
    )
    workers = [_describe(worker, status) for worker, status in rows]
    reports = [worker.report for worker in workers if worker.report is not None]
    return Diagnosis(verdict=worst_verdict([service, *reports]), service=service, workers=workers)


def _list_live(
    session: Session, settings: Settings, *, now: datetime
) -> list[tuple[Worker, WorkerStatus | None]]:
    oldest = now - timedelta(seconds=live_seconds(settings))
    statement = select(Worker, WorkerStatus).join(WorkerStatus, SAME_BOOT, isouter=True)
    live = statement.where(col(Worker.last_seen_at) >= oldest)
    found = session.exec(live.order_by(col(Worker.hostname), col(Worker.id))).all()
    return [(worker, status) for worker, status in found]


def _gather(
    session: Session,
    settings: Settings,
    rows: list[tuple[Worker, WorkerStatus | None]],
    *,
    broker: str,
) -> ServiceFacts:
    queued = sa.select(func.count()).where(col(Job.status) == JobStatus.QUEUED)
    return ServiceFacts(
        broker=broker,
        free_bytes=shutil.disk_usage(settings.state_dir).free,
        least_free_bytes=settings.min_free_bytes,
        state_dir=str(settings.state_dir),
        workers=[
            WorkerFacts(
                worker.hostname,
                worker.version,
                _find_skew(status),
                [EngineDevice.model_validate(device) for device in worker.engine_devices or ()],
            )
            for worker, status in rows
        ],
        num_known=session.scalar(sa.select(func.count()).select_from(Worker)) or 0,
        num_queued=session.scalar(queued) or 0,
    )


def _find_skew(status: WorkerStatus | None) -> float | None:
    if status is None:
        return None
    report = _load_report(status)
    return find_skew(
        received_at=status.at,
        sent_at=list(_read_times(status.gpus)),
        examined_at=None if report is None else report.at,
    )


def _read_times(gpus: list[dict[str, Any]]) -> Iterator[datetime]:
    for gpu in gpus:
        telemetry = gpu.get("facts", {}).get("telemetry") or {}
        if at := telemetry.get("at"):
            yield datetime.fromisoformat(at)


def list_self_tests(session: Session, settings: Settings, worker_id: str) -> list[SelfTestReport]:
    """Return the newest self-test of each GPU of a worker, as its doctor has reported them.

    Raises:
        NotFound: No such worker has ever registered.
    """
    get_worker(session, settings, worker_id)
    joined = select(WorkerStatus).join(Worker, SAME_BOOT).where(col(Worker.id) == worker_id)
    status = session.exec(joined).first()
    report = None if status is None else _load_report(status)
    return [] if report is None else report.self_tests


def _describe(worker: Worker, status: WorkerStatus | None) -> WorkerDoctor:
    return WorkerDoctor(
        worker_id=worker.id,
        hostname=worker.hostname,
        told_at=None if status is None else status.at,
        report=None if status is None else _load_report(status),
    )


def _load_report(status: WorkerStatus) -> DoctorReport | None:
    return None if status.doctor is None else DoctorReport.model_validate(status.doctor)


def _rank(check: DoctorCheck) -> int:
    return _RANKS[check.severity] if check.verdict == "bad" else len(_RANKS)
