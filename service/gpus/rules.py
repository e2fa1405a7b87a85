"""Lists the GPUs of the live workers, with their telemetry and jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from redkiln.status import AttemptStatus
from redkiln.views.hardware import GpuFacts, GpuState, WorkerGpu
from service.attempts.models import Attempt
from service.database import read_now
from service.gpus.expected import add_hold
from service.gpus.models import GpuHeld
from service.settings import Settings
from service.workers.models import Worker, WorkerStatus
from service.workers.rules import SAME_BOOT, live_seconds
from service.workers.status import STALE_STATUSES


@dataclass(frozen=True)
class Running:
    """A running attempt."""

    attempt_id: str
    job_id: str
    worker_id: str


def list_gpus(
    session: Session, settings: Settings, *, worker_id: str | None = None, arch: str | None = None
) -> list[WorkerGpu]:
    """Return the GPUs of the live workers, grouped by worker.

    Args:
        session: Reading session.
        settings: The service's settings.
        worker_id: Id of the only worker to list; None for all.
        arch: LLVM target (or torch's name for it) of the only GPUs to list; None for all.
    """
    now = read_now(session)
    running = {run.attempt_id: run for run in _list_running(session)}
    stale_at = now - timedelta(seconds=STALE_STATUSES * settings.status_seconds)
    holds = {(held.worker_id, held.key): held for held in session.exec(select(GpuHeld))}
    listed: list[WorkerGpu] = []
    for worker, status in _live_workers(session, settings, now=now, worker_id=worker_id):
        is_fresh = status is not None and status.at >= stale_at
        listed += describe_gpus(worker, status, running, is_fresh=is_fresh)
    if holds:
        listed = [add_hold(session, settings, gpu, holds) for gpu in listed]
    return [gpu for gpu in listed if arch is None or gpu.facts.gfx == arch]


def describe_gpus(
    worker: Worker, status: WorkerStatus | None, running: dict[str, Running], *, is_fresh: bool
) -> Iterator[WorkerGpu]:
    """Yield the GPUs of one worker.

    Args:
        worker: The worker that has them.
        status: Its newest status; without one, the GPUs that torch saw at its start are listed.
        running: Running attempts by id.
        is_fresh: Whether the status is new enough to show its telemetry.
    """
    for state in list_states(worker, status):
        run = running.get(state.attempt_id or "")
        is_held = run is not None and run.worker_id == worker.id
        yield WorkerGpu(
            id=f"{worker.id}/{state.key}",
            worker_id=worker.id,
            hostname=worker.hostname,
            key=state.key,
            facts=state.facts.model_copy(update={"telemetry": None}),
            telemetry=state.facts.telemetry if is_fresh else None,
            attempt_id=run.attempt_id if run and is_held else None,
            job_id=run.job_id if run and is_held else None,
            excluded=state.excluded,
        )


def list_states(worker: Worker, status: WorkerStatus | None) -> list[GpuState]:
    """Return a worker's GPUs as it reported them; before its first status, as torch saw them."""
    reported = [] if status is None else [GpuState.model_validate(gpu) for gpu in status.gpus]
    return reported or [_from_torch(gpu) for gpu in worker.gpus]


def _from_torch(gpu: dict[str, Any]) -> GpuState:
    address = gpu.get("pci_address")
    facts = GpuFacts(
        gfx=gpu.get("arch"),
        name=gpu.get("name"),
        vram_bytes=gpu.get("memory_bytes"),
        pci_address=address,
    )
    return GpuState(key=address or f"gpu-{gpu.get('index', 0)}", facts=facts)


def _live_workers(
    session: Session, settings: Settings, *, now: datetime, worker_id: str | None
) -> Sequence[tuple[Worker, WorkerStatus | None]]:
    statement = (
        select(Worker, WorkerStatus)
        .join(WorkerStatus, SAME_BOOT, isouter=True)
        .where(Worker.last_seen_at >= now - timedelta(seconds=live_seconds(settings)))
        .order_by(col(Worker.hostname), col(Worker.id))
    )
    if worker_id is not None:
        statement = statement.where(Worker.id == worker_id)
    return session.exec(statement).all()


def _list_running(session: Session) -> list[Running]:
    statement = select(Attempt.id, Attempt.job_id, Attempt.worker_id)
    rows = session.exec(statement.where(Attempt.status == AttemptStatus.RUNNING))
    return [Running(*row) for row in rows]
