"""Statuses of jobs and attempts, which status may follow which, and the phases of an attempt.

Clients treat a status that they do not know as not terminal, and read `is_terminal`.
"""

from enum import StrEnum


class JobStatus(StrEnum):
    """Where a job is in its life, for its owner."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended; it changes again only if someone retries it."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset(
        {JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.QUEUED,
            JobStatus.PAUSING,
            JobStatus.CANCELLING,
            JobStatus.SUCCEEDED,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
        }
    ),
    JobStatus.PAUSING: frozenset(
        {
            JobStatus.QUEUED,
            JobStatus.PAUSED,
            JobStatus.CANCELLING,
            JobStatus.SUCCEEDED,
            JobStatus.FAILED,
        }
    ),
    JobStatus.PAUSED: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.CANCELLING: frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELLED: frozenset({JobStatus.QUEUED}),
}
"""The statuses that may follow each status. A running job whose worker was lost returns to queued,
and so does a job that ended without success and is retried, or one that stopped training in order
to export its best checkpoint."""


class AttemptStatus(StrEnum):
    """The status of one execution of a job by a worker."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    PAUSED = "paused"
    LOST = "lost"
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """What a running attempt does now, in order."""

    PREPARING = "preparing"
    REHEARSING = "rehearsing"
    WARMING = "warming"
    COMPILING = "compiling"
    TRAINING = "training"
    MEASURING = "measuring"
    RUNNING = "running"
    EVALUATING = "evaluating"
    EXPORTING = "exporting"
    VERIFYING = "verifying"
    UPLOADING = "uploading"
