"""Which GPUs must get no job, as claims and workers ask."""

from sqlmodel import Session, select

from redkiln.views.hardware import OWNER_EXCLUSION
from service.gpus.models import GpuHeld
from service.workers.models import Worker, WorkerStatus


def held_keys(session: Session, worker_id: str) -> list[str]:
    """Return the keys of a worker's GPUs that are kept free."""
    statement = select(GpuHeld.key).where(GpuHeld.worker_id == worker_id)
    return list(session.exec(statement.order_by(GpuHeld.key)))


def awaits_release(session: Session, worker: Worker) -> bool:
    """Return whether a worker may still offer a GPU that is to be kept free.

    It learns of the wish with its next status; until that says so, it gets no job for a GPU.
    """
    held = held_keys(session, worker.id)
    if not held:
        return False
    statement = select(WorkerStatus.exclusions).where(
        WorkerStatus.worker_id == worker.id, WorkerStatus.boot_id == worker.boot_id
    )
    exclusions = session.exec(statement).first() or {}
    return any(exclusions.get(key, {}).get("code") != OWNER_EXCLUSION for key in held)
