"""Stores the status of a worker's hardware: one row, overwritten every few seconds."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Session

from redkiln.protocol import StatusRequest
from redkiln.views.hardware import GpuState
from service.database import read_now
from service.errors import Superseded
from service.workers.models import WORKER, WORKER_STATUS, Worker, WorkerStatus

STALE_STATUSES = 3
"""Number of missing statuses after which the last one is too old to show."""

_SAME = WORKER_STATUS.c.worker_id == sa.bindparam("of_worker")
_IS_CURRENT = sa.exists().where(
    WORKER.c.id == sa.bindparam("of_worker"), WORKER.c.boot_id == sa.bindparam("of_boot")
)


def take_status(session: Session, request: StatusRequest) -> bool:
    """Store a worker's newest status; a repeated or late one changes nothing.

    Returns:
        Whether the status was new.

    Raises:
        Superseded: Another process has registered as this worker, or none has.
    """
    values = _values(request) | {"at": read_now(session)}
    if _overwrite(session, request, values):
        return True
    worker = session.get(Worker, request.worker_id)
    if worker is None or worker.boot_id != request.boot_id:
        raise Superseded("this worker is unknown or has restarted; send hello first")
    known = session.get(WorkerStatus, request.worker_id, with_for_update=True)
    if known is not None and known.boot_id == request.boot_id:
        return False
    if known is not None:
        session.delete(known)
        session.flush()
    session.add(WorkerStatus(worker_id=request.worker_id, boot_id=request.boot_id, **values))
    return True


def find_exclusions(gpus: list[GpuState]) -> dict[str, dict[str, Any]]:
    """Return why GPUs are excluded, by GPU key (PCI address, and partition if there is one)."""
    return {
        gpu.key: gpu.excluded.model_dump(mode="json") for gpu in gpus if gpu.excluded is not None
    }


def _values(request: StatusRequest) -> dict[str, Any]:
    plain = request.model_dump(mode="json", include={"gpus", "sampling_seconds", "seq"})
    values = {**plain, "exclusions": find_exclusions(request.gpus)}
    if request.doctor is not None:
        values["doctor"] = request.doctor.model_dump(mode="json")
        values["doctor_verdict"] = request.doctor.verdict
    return values


def _overwrite(session: Session, request: StatusRequest, values: dict[str, Any]) -> bool:
    statement = (
        sa.update(WORKER_STATUS)
        .where(_SAME, WORKER_STATUS.c.boot_id == sa.bindparam("of_boot"), _IS_CURRENT)
        .where(WORKER_STATUS.c.seq < request.seq)
        .values(**values)
    )
    parameters = {"of_worker": request.worker_id, "of_boot": request.boot_id}
    result: Any = session.execute(statement, parameters)
    return bool(result.rowcount)
