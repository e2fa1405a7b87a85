"""Who works here: hello, signs of life, and which machines are live."""

from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from redkiln.job import AttemptStatus, WorkerView
from redkiln.protocol import PROTOCOL_VERSION, HelloRequest
from service.attempts.ending import lose
from service.attempts.tables import Attempt
from service.database import read_now
from service.errors import ProtocolMismatch
from service.settings import Settings
from service.workers.eligibility import Machine
from service.workers.tables import Worker


def hello(session: Session, request: HelloRequest) -> None:
    """Take a worker in; what its former process was running is lost at once.

    Raises:
        ProtocolMismatch: it speaks another version of the protocol.
    """
    if request.protocol != PROTOCOL_VERSION:
        raise ProtocolMismatch(
            f"this service speaks protocol {PROTOCOL_VERSION}, the worker {request.protocol}; "
            "run the same release of both",
            protocol=PROTOCOL_VERSION,
        )
    now = read_now(session)
    known = session.get(Worker, request.worker_id, with_for_update=True)
    if known is None or known.boot_id != request.boot_id:
        _lose_attempts(session, request, now=now)
    facts = request.model_dump(mode="json", exclude={"worker_id", "protocol"})
    session.merge(Worker(id=request.worker_id, last_seen_at=now, **facts))


def list_workers(session: Session, settings: Settings) -> list[WorkerView]:
    """Every worker that ever said hello, the live ones first."""
    now = read_now(session)
    running: dict[str, list[str]] = {}
    statement = select(Attempt.worker_id, Attempt.id).where(Attempt.status == AttemptStatus.RUNNING)
    for worker_id, attempt_id in session.exec(statement.order_by(Attempt.id)):
        running.setdefault(worker_id, []).append(attempt_id)
    workers = session.exec(select(Worker).order_by(col(Worker.last_seen_at).desc())).all()
    return [_view(worker, running.get(worker.id, []), now, settings) for worker in workers]


def live_machines(session: Session, settings: Settings) -> list[Machine]:
    """What the live workers have."""
    oldest = read_now(session) - timedelta(seconds=live_seconds(settings))
    workers = session.exec(select(Worker).where(Worker.last_seen_at >= oldest)).all()
    return [Machine(tuple(gpu.get("arch") for gpu in worker.gpus)) for worker in workers]


def live_seconds(settings: Settings) -> float:
    """Silence after which a worker counts as away: three polls missed, or a lease."""
    return max(3 * settings.poll_seconds, settings.lease_seconds)


def _lose_attempts(session: Session, request: HelloRequest, *, now: datetime) -> None:
    statement = select(Attempt).where(
        Attempt.worker_id == request.worker_id,
        Attempt.status == AttemptStatus.RUNNING,
        Attempt.boot_id != request.boot_id,
    )
    for attempt in session.exec(statement.with_for_update()).all():
        lose(session, attempt, now=now, message="its worker was restarted")


def _view(worker: Worker, attempts: list[str], now: datetime, settings: Settings) -> WorkerView:
    lag_seconds = max(0.0, (now - worker.last_seen_at).total_seconds())
    facts = worker.model_dump(exclude={"boot_id"})
    return WorkerView(
        **facts,
        is_live=lag_seconds <= live_seconds(settings),
        lag_seconds=round(lag_seconds, 3),
        attempts=attempts,
    )
