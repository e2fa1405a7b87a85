"""The service's own checks: pure functions from facts to verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from redkiln.version import __version__
from redkiln.views.hardware import DoctorCheck
from redkiln.views.worker import EngineDevice

GIB = 1024**3
SHORT_DISK_FACTOR = 5
"""A disk with less free space than this many times the reserve is reported as nearly full."""
MAX_SKEW_SECONDS = 30.0
"""A larger difference distorts telemetry curves and makes logs hard to compare."""


@dataclass(frozen=True)
class WorkerFacts:
    """A live worker.

    Attributes:
        skew_seconds: Seconds by which its clock is ahead of ours; None if it is not known.
        engine_devices: Its devices for other engines than torch.
    """

    hostname: str
    version: str
    skew_seconds: float | None = None
    engine_devices: Sequence[EngineDevice] = ()


@dataclass(frozen=True)
class ServiceFacts:
    """What the service knows about itself.

    Attributes:
        broker: State of the doorbell; `off` without a broker.
        free_bytes: Free bytes on the disk of the state folder.
        least_free_bytes: Free bytes below which the service accepts nothing new.
        workers: The live workers.
        num_known: Number of workers that have ever registered.
        num_queued: Number of queued jobs.
    """

    broker: str
    free_bytes: int
    least_free_bytes: int
    state_dir: str
    workers: Sequence[WorkerFacts]
    num_known: int
    num_queued: int = 0


def examine_service(facts: ServiceFacts) -> list[DoctorCheck]:
    """Return all checks of the service, in no particular order."""
    return [
        check_workers(facts),
        check_disk(facts),
        check_broker(facts),
        check_releases(facts),
        check_clocks(facts),
        check_engines(facts),
    ]


def check_workers(facts: ServiceFacts) -> DoctorCheck:
    """Check that there is a live worker."""
    if facts.workers:
        names = ", ".join(worker.hostname for worker in facts.workers)
        return _check("workers", "live workers", names)
    known = f"{facts.num_known} registered before" if facts.num_known else "none ever registered"
    return _check(
        "workers",
        "live workers",
        f"none ({known}); {facts.num_queued} jobs are waiting",
        severity="blocks",
        cause="no worker is running, or none can reach this service",
        fix="docker compose up --detach worker && docker compose logs worker   (native: make up)",
    )


def check_disk(facts: ServiceFacts) -> DoctorCheck:
    """Check that the disk has room for uploads, checkpoints and artifacts."""
    seen = (
        f"{facts.free_bytes / GIB:.1f} GiB free at {facts.state_dir}, "
        f"{facts.least_free_bytes / GIB:.1f} GiB are reserved"
    )
    if facts.free_bytes >= SHORT_DISK_FACTOR * facts.least_free_bytes:
        return _check("disk", "disk", seen)
    is_full = facts.free_bytes < facts.least_free_bytes
    return _check(
        "disk",
        "disk",
        seen,
        severity="blocks" if is_full else "slows",
        cause="the service accepts nothing new (507)" if is_full else "the disk is nearly full",
        fix="redkiln delete JOB   for jobs whose files you no longer need, or a larger disk",
    )


def check_broker(facts: ServiceFacts) -> DoctorCheck:
    """Check the doorbell's broker; without it jobs still start, but later."""
    if facts.broker != "away":
        words = {"off": "not configured: workers poll for jobs", "unknown": "not contacted yet"}
        return _check("broker", "broker", words.get(facts.broker, "responding"))
    return _check(
        "broker",
        "broker",
        "not responding",
        severity="slows",
        cause="Redis is unreachable: workers find new jobs only at their next poll",
        fix="docker compose up --detach redis && docker compose logs redis",
    )


def check_releases(facts: ServiceFacts) -> DoctorCheck:
    """Check that the workers run the service's release; others get no new jobs."""
    others = [worker for worker in facts.workers if worker.version != __version__]
    if not others:
        return _check("releases", "releases", f"service and workers run {__version__}")
    names = ", ".join(f"{worker.hostname} ({worker.version})" for worker in others)
    return _check(
        "releases",
        "releases",
        f"the service runs {__version__}; different: {names}",
        severity="blocks" if len(others) == len(facts.workers) else "slows",
        cause="a worker that runs another release gets no new jobs",
        fix="git pull && docker compose up --detach --build   on that machine",
    )


def check_clocks(facts: ServiceFacts) -> DoctorCheck:
    """Check the workers' clocks against the service's."""
    known = [worker for worker in facts.workers if worker.skew_seconds is not None]
    wrong = [worker for worker in known if abs(worker.skew_seconds or 0.0) > MAX_SKEW_SECONDS]
    if not wrong:
        seen = (
            f"within {MAX_SKEW_SECONDS:.0f} s of the service's clock"
            if known
            else "no worker has reported its time yet"
        )
        return _check("clocks", "clocks", seen, is_known=bool(known))
    names = ", ".join(f"{worker.hostname} by {worker.skew_seconds:+.0f} s" for worker in wrong)
    return _check(
        "clocks",
        "clocks",
        f"differ from the service's clock: {names}",
        severity="slows",
        cause="times in logs and curves do not match",
        fix="sudo timedatectl set-ntp true   on that machine",
    )


def check_engines(facts: ServiceFacts) -> DoctorCheck:
    """Show the GPUs of other engines than torch, and those that stay idle next to them."""
    name, title = "engines", "GPUs of other engines"
    used, idle = [], []
    for worker in facts.workers:
        gpus = [device for device in worker.engine_devices if not device.is_software]
        in_use = [device for device in gpus if device.excluded is None]
        used += [f"{gpu.name} ({gpu.device}) on {worker.hostname}" for gpu in in_use]
        if in_use:
            idle += [(worker, gpu) for gpu in gpus if gpu.excluded is not None]
    seen = f"used: {', '.join(used)}" if used else "none in use"
    if not idle:
        return _check(name, title, seen)
    return _check(
        name,
        title,
        f"{seen}; idle: {', '.join(f'{gpu.name} on {worker.hostname}' for worker, gpu in idle)}",
        severity="note",
        cause="no slot of the worker opens these GPUs",
        fix="; ".join(sorted({f"{gpu.name}: {gpu.excluded}" for _, gpu in idle})),
    )


def find_skew(
    *, received_at: datetime, sent_at: Sequence[datetime], examined_at: datetime | None
) -> float | None:
    """Estimate by how many seconds a worker's clock is ahead; None without any of its times.

    Args:
        received_at: Time at which the service received the status, by its own clock.
        sent_at: Times just before the worker sent the status, by the worker's clock.
        examined_at: Time of the worker's last check of itself, by its own clock. It may be long
            ago, so it only reveals a clock that is ahead.
    """
    if sent_at:
        return (max(sent_at) - received_at).total_seconds()
    if examined_at is None:
        return None
    return max(0.0, (examined_at - received_at).total_seconds())


def _check(
    name: str,
    title: str,
    evidence: str,
    *,
    severity: str | None = None,
    cause: str = "",
    fix: str = "",
    is_known: bool = True,
) -> DoctorCheck:
    return DoctorCheck.model_validate(
        {
            "id": name,
            "row": 0,
            "title": title,
            "verdict": "bad" if severity else "ok" if is_known else "unknown",
            "severity": severity or "note",
            "evidence": evidence,
            "cause": cause,
            "fix": fix,
        }
    )
