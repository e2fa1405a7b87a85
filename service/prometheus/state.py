"""Gauges of the service's state, read from the database when Prometheus scrapes them."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Generic, TypeVar

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlmodel import Session, col

from redkiln.gauges import GPU_GAUGES, LABELS, read_gauges
from redkiln.status import JobStatus
from redkiln.version import __version__
from redkiln.views.hardware import WorkerGpu
from service.artifacts.models import Artifact
from service.attempts.models import Checkpoint
from service.database import read_now
from service.datasets.models import Dataset
from service.errors import ServiceError
from service.gpus.rules import list_gpus
from service.jobs.models import JOB
from service.services import Services
from service.workers.models import WORKER
from service.workers.rules import live_seconds

STATE_SECONDS = 5.0
STORAGE_SECONDS = 60.0
"""Age up to which the storage gauges are reused, because they are sums over all rows."""

# Ids rise with time, and an index has them in order.
_OLDEST = (
    sa.select(JOB.c.created_at).where(JOB.c.status == JobStatus.QUEUED).order_by(JOB.c.id).limit(1)
)

T = TypeVar("T")


class Cached(Generic[T]):
    """A value that is computed again when it is older than some seconds."""

    def __init__(
        self, make: Callable[[], T], *, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[float, T] | None = None

    def get(self) -> T:
        """Return the value; callers wait while it is being computed."""
        with self._lock:
            now = self._clock()
            if self._made is None or now - self._made[0] >= self._seconds:
                self._made = (now, self._make())
            return self._made[1]


class StateCollector(Collector):
    """Gauges of jobs, queue, workers, GPUs and storage; none while the database is away."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._state = Cached(self._read_state, seconds=STATE_SECONDS)
        self._storage = Cached(self._read_storage, seconds=STORAGE_SECONDS)

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        yield _family("redkiln_info", "Release of the service.", "version", {__version__: 1})
        is_up = self._services.doorbell.state == "up"
        yield GaugeMetricFamily("redkiln_broker_up", "1 while the broker responds.", is_up)
        try:
            metrics = [*self._state.get(), *self._storage.get()]
        except ServiceError:
            metrics = []
        yield from metrics
        yield GaugeMetricFamily(
            "redkiln_database_up", "1 while the database responds.", bool(metrics)
        )

    def _read_state(self) -> list[Metric]:
        settings = self._services.settings

        def read(session: Session) -> list[Metric]:
            return [
                *queue_gauges(session),
                worker_gauge(session, away_seconds=live_seconds(settings)),
                *gpu_gauges(list_gpus(session, settings)),
            ]

        return self._services.database.read(read)

    def _read_storage(self) -> list[Metric]:
        free = shutil.disk_usage(self._services.settings.state_dir).free
        disk = GaugeMetricFamily(
            "redkiln_state_free_bytes", "Free bytes on the disk of the state folder.", free
        )
        return [self._services.database.read(storage_gauge), disk]


def queue_gauges(session: Session) -> list[Metric]:
    """Return the number of jobs by status, and how long the oldest queued one has waited."""
    counted = session.execute(sa.select(JOB.c.status, sa.func.count()).group_by(JOB.c.status))
    counts = dict.fromkeys(map(str, JobStatus), 0)
    counts.update((status, number) for status, number in counted)
    oldest = session.execute(_OLDEST).scalar_one_or_none()
    waited = 0.0 if oldest is None else (read_now(session) - oldest).total_seconds()
    jobs = _family("redkiln_jobs", "Jobs by status.", "status", counts)
    depth = GaugeMetricFamily("redkiln_queue_depth", "Queued jobs.", counts[JobStatus.QUEUED])
    age = GaugeMetricFamily(
        "redkiln_queue_oldest_seconds",
        "How long the oldest queued job has waited.",
        max(0.0, waited),
    )
    return [jobs, depth, age]


def worker_gauge(session: Session, *, away_seconds: float) -> Metric:
    """Return the number of workers that are live and away."""
    oldest = read_now(session) - timedelta(seconds=away_seconds)
    is_live = sa.case((WORKER.c.last_seen_at >= oldest, "live"), else_="away")
    rows = session.execute(sa.select(is_live, sa.func.count()).group_by(is_live))
    counts = {"live": 0, "away": 0}
    counts.update((state, number) for state, number in rows)
    return _family(
        "redkiln_workers",
        "Workers that have registered, by whether they are live.",
        "state",
        counts,
    )


def gpu_gauges(gpus: list[WorkerGpu]) -> list[Metric]:
    """Return the gauges of the live workers' GPUs, without telemetry that is too old."""
    families = {
        name: GaugeMetricFamily(name, text, labels=["worker", "host", "gpu", *LABELS.get(name, ())])
        for name, text in GPU_GAUGES.items()
    }
    for gpu in gpus:
        facts = gpu.facts.model_copy(update={"telemetry": gpu.telemetry})
        for reading in read_gauges(gpu.model_copy(update={"facts": facts})):
            own = [reading.labels[label] for label in LABELS.get(reading.gauge, ())]
            labels = [gpu.worker_id, gpu.hostname, gpu.key, *own]
            families[reading.gauge].add_metric(labels, reading.value)
    return list(families.values())


def storage_gauge(session: Session) -> Metric:
    """Return stored bytes by kind; equal bytes are stored once but counted each time."""
    kept = {
        "artifacts": sa.select(sa.func.sum(Artifact.size_bytes)),
        "checkpoints": sa.select(sa.func.sum(Checkpoint.size_bytes)),
        "datasets": sa.select(sa.func.sum(Dataset.size_bytes)).where(
            col(Dataset.deleted_at).is_(None), col(Dataset.kind) == "archive"
        ),
    }
    sizes = {kind: session.execute(query).scalar_one() or 0 for kind, query in kept.items()}
    return _family("redkiln_stored_bytes", "Stored bytes by kind.", "kind", sizes)


def _family(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
