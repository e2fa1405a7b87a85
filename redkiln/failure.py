"""Failures as data that cross process boundaries: a code, a message, and whether to retry.

Processes share data, never exceptions. A trainer writes a `JobFailure` before it exits, the agent
derives one when a process dies without writing it, and the API shows it as a job's reason.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class FailureCode(StrEnum):
    """Why an attempt or a job ended without success."""

    BAD_INPUT = "bad_input"
    DATASET_UNAVAILABLE = "dataset_unavailable"
    MODEL_UNAVAILABLE = "model_unavailable"
    EXPORT_REFUSED = "export_refused"
    UNVERIFIED = "unverified"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    GPU_FAULT = "gpu_fault"
    NO_GPU = "no_gpu"
    GPU_LINKS = "gpu_links"
    CPU_FALLBACK = "cpu_fallback"
    GPU_BUSY = "gpu_busy"
    SCRIPT_FAILED = "script_failed"
    GPU_UNUSED = "gpu_unused"
    OVER_LIMIT = "over_limit"
    DISK_FULL = "disk_full"
    NO_PROGRESS = "no_progress"
    MAX_DURATION = "max_duration"
    KILLED = "killed"
    CRASHED = "crashed"
    INTERNAL = "internal"
    WORKER_FAULT = "worker_fault"
    WORKER_LOST = "worker_lost"
    WORKER_SHUTDOWN = "worker_shutdown"
    PAUSED = "paused"
    SUPERSEDED = "superseded"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"


RETRYABLE: frozenset[FailureCode] = frozenset(
    {
        FailureCode.DATASET_UNAVAILABLE,
        FailureCode.HOST_OUT_OF_MEMORY,
        FailureCode.GPU_FAULT,
        FailureCode.NO_GPU,
        FailureCode.GPU_BUSY,
        FailureCode.DISK_FULL,
        FailureCode.NO_PROGRESS,
        FailureCode.KILLED,
        FailureCode.CRASHED,
        FailureCode.WORKER_FAULT,
        FailureCode.WORKER_LOST,
        FailureCode.WORKER_SHUTDOWN,
    }
)
"""Codes whose cause may be gone at the next attempt; all others fail the job at once."""


class JobFailure(BaseModel):
    """A failure as data.

    Attributes:
        code: Machine-readable cause.
        message: Explanation for people: the event, and what to do.
        retryable: Whether another attempt makes sense.
        details: Evidence (exit status, signal, step, tail of stderr), JSON-serialisable.
    """

    code: FailureCode
    message: str
    retryable: bool
    details: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: FailureCode, message: str, **details: Any) -> "JobFailure":
        """Return a failure whose code decides whether it is retryable."""
        return cls(code=code, message=message, retryable=code in RETRYABLE, details=details)
