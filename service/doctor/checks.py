"""The service's own checks: pure judgements of facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from redkiln.version import __version__
from redkiln.views.hardware import DoctorCheck

GIB = 1024**3
SHORT_DISK_FACTOR = 5
"""A disk with less than so many times what is kept free is soon full."""
MAX_SKEW_SECONDS = 30.0
"""Clocks that differ by more bend the curves of telemetry and confuse whoever compares logs."""


@dataclass(frozen=True)
class WorkerFacts:
    """A live worker.

    Attributes:
        skew_seconds: how far its clock is ahead of ours; None when it has told no time.
    """

    hostname: str
    version: str
    skew_seconds: float | None = None


@dataclass(frozen=True)
class ServiceFacts:
    """What the service knows of itself.

    Attributes:
        broker: state of the doorbell; `off` when none is set.
        free_bytes: on the disk of its state folder.
        least_free_bytes: below which it takes nothing new.
        workers: the live ones.
        num_known: workers that ever said hello.
        num_queued: jobs that wait.
    """

    broker: str
    free_bytes: int
    least_free_bytes: int
    state_dir: str
    workers: Sequence[WorkerFacts]
    num_known: int
    num_queued: int = 0


def examine_service(facts: ServiceFacts) -> list[DoctorCheck]:
    """All checks of the service, in no order."""
    return [
        check_workers(facts),
        check_disk(facts),
        check_broker(facts),
        check_releases(facts),
        check_clocks(facts),
    ]


def check_workers(facts: ServiceFacts) -> DoctorCheck:
    """Whether anybody is there to train."""
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
    """Room for uploads, checkpoints and artifacts."""
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
    """The doorbell; without it jobs start later, and start all the same."""
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
    """Workers of another release get no new jobs."""
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
    """Clocks of the workers against the service's."""
    told = [worker for worker in facts.workers if worker.skew_seconds is not None]
    wrong = [worker for worker in told if abs(worker.skew_seconds or 0.0) > MAX_SKEW_SECONDS]
    if not wrong:
        seen = (
            f"within {MAX_SKEW_SECONDS:.0f} s of the service's clock"
            if told
            else "no worker has reported its time yet"
        )
        return _check("clocks", "clocks", seen, is_known=bool(told))
    names = ", ".join(f"{worker.hostname} by {worker.skew_seconds:+.0f} s" for worker in wrong)
    return _check(
        "clocks",
        "clocks",
        f"differ from the service's clock: {names}",
        severity="slows",
        cause="times in logs and curves do not match",
        fix="sudo timedatectl set-ntp true   on that machine",
    )


def find_skew(*, told_at: datetime, said: Sequence[datetime], looked_at: datetime | None) -> (
    float | None
):  # fmt: skip
    """How far a worker's clock is ahead, by the times in what it told; None without any.

    Args:
        told_at: when the service took it in, by its own clock.
        said: by the worker's clock, just before it told.
        looked_at: by the worker's clock, at any time before: it shows only a clock that is ahead.
    """
    if said:
        return (max(said) - told_at).total_seconds()
    if looked_at is None:
        return None
    return max(0.0, (looked_at - told_at).total_seconds())


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
