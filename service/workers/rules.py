"""Registers workers, and tells which are live and what GPUs they have."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog
from sqlmodel import Session, col, select

from redkiln.protocol import PROTOCOL_VERSION, HelloRequest
from redkiln.status import AttemptStatus
from redkiln.version import __version__
from redkiln.views.hardware import PASSING_EXCLUSIONS, UNWANTED
from redkiln.views.worker import WorkerView
from service.attempts.ending import lose
from service.attempts.models import Attempt
from service.database import read_now
from service.errors import NotFound, ProtocolMismatch
from service.settings import Settings
from service.workers.eligibility import Machine
from service.workers.models import Worker, WorkerStatus

log = structlog.get_logger(__name__)

SAME_BOOT = sa.and_(
    col(WorkerStatus.worker_id) == col(Worker.id), col(WorkerStatus.boot_id) == col(Worker.boot_id)
)
"""Joins a worker with the status of its current process, if it has sent one."""


def hello(session: Session, request: HelloRequest) -> None:
    """Register a worker; attempts of its previous process are lost at once.

    Raises:
        ProtocolMismatch: The worker uses another version of the protocol.
    """
    if request.protocol != PROTOCOL_VERSION:
        raise ProtocolMismatch(
            f"the worker uses protocol {request.protocol}, this service {PROTOCOL_VERSION}; "
            "run the same release of both",
            protocol=PROTOCOL_VERSION,
        )
    if request.version != __version__:
        log.warning(
            "worker_of_another_release",
            host=request.hostname,
            release=request.version,
            advice=f"it gets no new jobs until it runs {__version__}, the release of this service",
        )
    now = read_now(session)
    known = session.get(Worker, request.worker_id, with_for_update=True)
    if known is None or known.boot_id != request.boot_id:
        _lose_attempts(session, request, now=now)
    facts = request.model_dump(mode="json", exclude={"worker_id", "protocol"})
    session.merge(Worker(id=request.worker_id, last_seen_at=now, **facts))


def list_workers(session: Session, settings: Settings) -> list[WorkerView]:
    """Return every worker that has ever registered, most recently seen first."""
    now = read_now(session)
    running: dict[str, list[str]] = {}
    statement = select(Attempt.worker_id, Attempt.id).where(Attempt.status == AttemptStatus.RUNNING)
    for worker_id, attempt_id in session.exec(statement.order_by(Attempt.id)):
        running.setdefault(worker_id, []).append(attempt_id)
    query = select(Worker, WorkerStatus.exclusions, WorkerStatus.doctor_verdict)
    rows = session.exec(
        query.join(WorkerStatus, SAME_BOOT, isouter=True).order_by(col(Worker.last_seen_at).desc())
    ).all()
    return [
        _view(worker, exclusions or {}, verdict, running.get(worker.id, []), now, settings)
        for worker, exclusions, verdict in rows
    ]


def get_worker(session: Session, settings: Settings, worker_id: str) -> WorkerView:
    """Return a worker's view.

    Raises:
        NotFound: No such worker has ever registered.
    """
    for worker in list_workers(session, settings):
        if worker.id == worker_id:
            return worker
    raise NotFound(f"there is no worker {worker_id!r}; GET /v1/workers lists them")


def live_machines(session: Session, settings: Settings) -> list[Machine]:
    """Return the GPUs of the live workers, without those excluded for good."""
    return _read_machines(session, _live_machines(session, settings))


def has_live_gpu(session: Session, settings: Settings) -> bool:
    """Return whether torch sees a GPU on a live worker; workers without one are not read."""
    with_gpus = sa.cast(Worker.gpus, sa.String) != "[]"
    found = _read_machines(session, _live_machines(session, settings).where(with_gpus))
    return any(machine.has_gpu for machine in found)


def _live_machines(session: Session, settings: Settings) -> Any:
    oldest = read_now(session) - timedelta(seconds=live_seconds(settings))
    return (
        select(Worker.hostname, Worker.gpus, Worker.packages, WorkerStatus.exclusions)
        .join(WorkerStatus, SAME_BOOT, isouter=True)
        .where(Worker.last_seen_at >= oldest)
    )


def _read_machines(session: Session, statement: Any) -> list[Machine]:
    return [
        _machine(hostname, gpus, packages, exclusions or {})
        for hostname, gpus, packages, exclusions in session.exec(statement)
    ]


def usable_arches(session: Session, worker: Worker) -> list[str | None]:
    """Return the architecture of each GPU that a worker can use now, including busy ones."""
    statement = select(WorkerStatus.exclusions).where(
        WorkerStatus.worker_id == worker.id, WorkerStatus.boot_id == worker.boot_id
    )
    exclusions = session.exec(statement).first() or {}
    return [gpu.get("arch") for gpu, why in pair_exclusions(worker.gpus, exclusions) if why is None]


def pair_exclusions(
    gpus: Sequence[Mapping[str, Any]], exclusions: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
    """Pair each GPU that torch sees with the reason why it is excluded, or None.

    Args:
        gpus: `redkiln.views.worker.GpuView` of each; partitions of a card share one address.
        exclusions: Reasons by GPU key, as the worker reported them.
    """
    seen: Counter[str] = Counter()
    pairs = []
    for gpu in gpus:
        address = gpu.get("pci_address") or f"gpu-{gpu.get('index')}"
        partition = f"{address}-p{seen[address]}"
        seen[address] += 1
        pairs.append((gpu, exclusions.get(address) or exclusions.get(partition)))
    return pairs


def _machine(
    hostname: str,
    gpus: Sequence[Mapping[str, Any]],
    packages: Sequence[str] | None,
    exclusions: Mapping[str, Any],
) -> Machine:
    arches: list[str | None] = []
    has_bf16: list[bool | None] = []
    lasting: list[str] = []
    for gpu, reason in pair_exclusions(gpus, exclusions):
        if reason is None or reason["code"] in PASSING_EXCLUSIONS:
            arches.append(gpu.get("arch"))
            has_bf16.append(gpu.get("has_bf16"))
        elif reason["code"] != UNWANTED:
            lasting.append(f"{gpu.get('name')} of {hostname}: {reason['message']}")
    has = None if packages is None else frozenset(packages)
    return Machine(tuple(arches), tuple(lasting), has, tuple(has_bf16))


def live_seconds(settings: Settings) -> float:
    """Return the silence after which a worker is away: three missed polls, or a lease."""
    return max(3 * settings.poll_seconds, settings.lease_seconds)


def _lose_attempts(session: Session, request: HelloRequest, *, now: datetime) -> None:
    statement = select(Attempt).where(
        Attempt.worker_id == request.worker_id,
        Attempt.status == AttemptStatus.RUNNING,
        Attempt.boot_id != request.boot_id,
    )
    for attempt in session.exec(statement.with_for_update()).all():
        lose(session, attempt, now=now, message="the worker was restarted")


def _view(
    worker: Worker,
    exclusions: Mapping[str, Any],
    doctor_verdict: str | None,
    attempts: list[str],
    now: datetime,
    settings: Settings,
) -> WorkerView:
    lag_seconds = max(0.0, (now - worker.last_seen_at).total_seconds())
    facts = worker.model_dump(exclude={"boot_id", "gpus"})
    return WorkerView.model_validate(
        {
            **facts,
            "gpus": [
                {**gpu, "excluded": why} for gpu, why in pair_exclusions(worker.gpus, exclusions)
            ],
            "is_live": lag_seconds <= live_seconds(settings),
            "lag_seconds": round(lag_seconds, 3),
            "attempts": attempts,
            "doctor_verdict": doctor_verdict,
        }
    )
