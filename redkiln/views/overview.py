"""All that a home view shows, as one document: jobs, GPUs, disk, health and diagnosis."""

from datetime import datetime

from pydantic import BaseModel, Field

from redkiln.views.hardware import DoctorVerdict, WorkerGpu
from redkiln.views.job import JobSummary


class Sparkline(BaseModel):
    """The course of one metric, thinned to few points."""

    name: str
    steps: list[int]
    values: list[float | None]


class RunningJob(JobSummary):
    """A job that a worker runs or is stopping.

    Attributes:
        attempt_started_at: Start of its present attempt; None between two attempts.
        earlier_seconds: Time in which its earlier attempts ran, without pauses and waits.
        gpu_ids: Ids of its GPUs in `GET /v1/gpus`; empty on a CPU.
        sparkline: The training loss so far, or another metric of a job without one.
    """

    worker_id: str | None = None
    hostname: str | None = None
    attempt_started_at: datetime | None = None
    earlier_seconds: float = 0.0
    gpu_ids: list[str] = Field(default_factory=list)
    sparkline: Sparkline | None = None


class OverviewGpu(WorkerGpu):
    """A GPU of a live worker, with the name of its job."""

    job_name: str | None = None


class Disk(BaseModel):
    """The disk of the service's state folder; new data is refused below the reserve."""

    free_bytes: int
    total_bytes: int
    reserved_bytes: int


class Health(BaseModel):
    """Whether jobs can run.

    Attributes:
        broker: State of the messages that wake workers; without them, workers poll.
        is_ready: Whether a worker is live.
    """

    version: str
    broker: str
    num_live_workers: int
    num_workers: int
    is_ready: bool


class DoctorLine(BaseModel):
    """The verdict of the doctor, and the first thing to fix.

    Attributes:
        line: Problem in one line, or None.
        fix: Commands that fix it.
    """

    verdict: DoctorVerdict
    hostname: str | None = None
    line: str | None = None
    fix: str | None = None


class Overview(BaseModel):
    """The state of an installation.

    A stream sends only the sections that have changed; the others are absent there.

    Attributes:
        seq: Number of this state; it rises, also over restarts of the service.
        counts: Number of jobs by status.
        running: Jobs that workers run or stop, longest first; at most 50.
        waiting: Queued jobs in the order of the queue, then paused ones; at most 50 of each.
        ended: Jobs that ended last, newest first; at most 20.
    """

    seq: int
    at: datetime
    counts: dict[str, int] = Field(default_factory=dict)
    running: list[RunningJob] = Field(default_factory=list)
    waiting: list[JobSummary] = Field(default_factory=list)
    ended: list[JobSummary] = Field(default_factory=list)
    gpus: list[OverviewGpu] = Field(default_factory=list)
    disk: Disk
    health: Health
    doctor: DoctorLine


SECTIONS = ("counts", "running", "waiting", "ended", "gpus", "disk", "health", "doctor")
"""The parts of an overview that a stream sends when they change."""
