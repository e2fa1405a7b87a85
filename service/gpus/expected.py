"""Shows how far a GPU is on its way to its owner."""

import statistics
from collections.abc import Mapping
from datetime import datetime

from sqlmodel import Session, col, select

from redkiln.views.hardware import OWNER_EXCLUSION, GpuHold, WorkerGpu
from service.database import read_now
from service.gpus.models import GpuHeld
from service.jobs.models import JobEvent
from service.settings import Settings
from service.workers.status import STALE_STATUSES

PAUSE_SECONDS = 3.0
"""Time to save a checkpoint of a job that was never paused, after its worker has the command."""


def add_hold(
    session: Session,
    settings: Settings,
    gpu: WorkerGpu,
    holds: Mapping[tuple[str, str], GpuHeld],
) -> WorkerGpu:
    """Return a GPU with its hold, if its owner keeps it free."""
    held = holds.get((gpu.worker_id, gpu.key))
    if held is None:
        return gpu
    is_told = gpu.excluded is not None and gpu.excluded.code == OWNER_EXCLUSION
    # A worker without sensors does not answer, but it gets no job for a GPU either.
    silent_seconds = (read_now(session) - held.asked_at).total_seconds()
    is_safe = is_told or silent_seconds > STALE_STATUSES * settings.status_seconds
    is_free = is_safe and gpu.attempt_id is None
    hold = GpuHold(
        status="free" if is_free else "freeing",
        asked_at=held.asked_at,
        job_id=held.job_id,
        expected_seconds=expect_seconds(session, settings, held.job_id),
    )
    return gpu.model_copy(update={"hold": hold})


def expect_seconds(session: Session, settings: Settings, job_id: str | None) -> float:
    """Return how long a job takes to free its GPU: as in its earlier pauses, else a guess."""
    if job_id is None:
        return settings.status_seconds
    events = session.exec(
        select(JobEvent.kind, JobEvent.at)
        .where(JobEvent.job_id == job_id, col(JobEvent.kind).in_(("pausing", "paused")))
        .order_by(col(JobEvent.seq))
    ).all()
    asked_at: datetime | None = None
    took = []
    for kind, at in events:
        if kind == "paused" and asked_at is not None:
            took.append((at - asked_at).total_seconds())
        asked_at = at if kind == "pausing" else None
    return round(statistics.median(took), 1) if took else settings.report_seconds + PAUSE_SECONDS
