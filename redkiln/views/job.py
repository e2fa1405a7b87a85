"""A job, its attempts, events and estimates, as the API shows them."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from redkiln.failure import FailureCode
from redkiln.status import AttemptStatus, JobStatus, Phase
from redkiln.views.result import JobResult, Outcome


class PreviewNote(BaseModel):
    """A small picture or table of sample predictions; `GET /v1/jobs/{id}/preview` has the newest.

    Attributes:
        step: Step at which they were made.
        file: Name below the job directory's `preview/`; without meaning outside the worker.
        media_type: `image/png`, or `text/markdown` for a table.
        num: Number of samples shown.
        num_right: Number of right predictions; None if predictions cannot be right or wrong.
    """

    step: int
    file: str
    media_type: str
    num: int
    num_right: int | None = None


class Progress(BaseModel):
    """How far a job has got. `eta_seconds` is None until the speed is known.

    Attributes:
        step: Finished optimiser steps; for a benchmark, finished tests.
        fraction: Finished fraction of the planned steps, in [0, 1].
        data_wait_ratio: Fraction of the last steps' time spent waiting for batches.
        memory_used_bytes: Memory of tensors on the training device; on a CPU, of the process.
        memory_peak_bytes: Highest value of that so far.
        memory_total_bytes: Device memory that the job may use.
        host_peak_bytes: Peak resident memory of the trainer's process on the host.
        data_bytes: Size of the data set as training reads it: decoded, tokenised, prepared.
        activity: Present activity in words, if steps differ from each other.
        preview: Newest sample predictions.
        metrics: Newest value of each metric (`train/loss`, `val/accuracy`, ...).
    """

    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    fraction: float = 0.0
    samples_per_second: float | None = None
    eta_seconds: float | None = None
    data_wait_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    host_peak_bytes: int | None = None
    data_bytes: int | None = None
    activity: str | None = None
    preview: PreviewNote | None = None
    metrics: dict[str, float] = Field(default_factory=dict)


class Warned(BaseModel):
    """Something that did not stop the job but that its owner should know."""

    code: str
    message: str


class Reason(BaseModel):
    """Why a job has its status."""

    code: FailureCode | str
    message: str
    retryable: bool = False


class AttemptView(BaseModel):
    """One execution of a job."""

    id: str
    number: int
    status: AttemptStatus
    worker_id: str
    phase: Phase | None = None
    started_at: datetime
    finished_at: datetime | None = None
    resumed_from_step: int | None = None
    last_step: int | None = None
    lost_log_bytes: int = 0
    failure: Reason | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class CheckpointView(BaseModel):
    """Committed training state that a job can resume from."""

    step: int
    is_best: bool
    size_bytes: int
    metrics: dict[str, float] = Field(default_factory=dict)
    created_at: datetime


class Estimate(BaseModel):
    """What a job would take on a device, estimated from a similar job that ran there.

    Attributes:
        seconds: Time from the first phase to the last, without waiting; None if unknown.
        memory_bytes: Peak memory of the GPU, or of the host on a CPU; None if unknown.
        measured_by: Job that the estimate comes from.
        model_auto: Model and reason of `model: auto` in that job; None if the model is named.
        caveat: Why the time is a rough guess; None if that job had the same data and model options.
    """

    device: str
    seconds: float | None = None
    memory_bytes: int | None = None
    measured_by: str
    model_auto: str | None = None
    caveat: str | None = None


class Estimates(BaseModel):
    """What a spec would take on each device, and what is unknown.

    Attributes:
        model_auto: Model that `model: auto` will become and why; None unless the data decide it
            without a measurement.
    """

    estimates: list[Estimate] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    model_auto: str | None = None


MAX_QUEUE_POSITION = 1000
"""Queue positions are counted up to this one, which stands for itself and all later ones."""


class JobSummary(BaseModel):
    """A job as one row of a list.

    Attributes:
        task: `auto` until the data set decides it.
        queue_position: 1 is next; 1000 means the thousandth or later.
        result: Result of the job; None until it has ended.
        dataset_name: Name that the data set had when the job was submitted.
        model: Name of the model in the spec; None if the task has none.
        project: Project of the key that submitted the job.
    """

    id: str
    name: str
    task: str
    status: JobStatus
    is_terminal: bool
    phase: Phase | None = None
    reason: Reason | None = None
    progress: Progress | None = None
    queue_position: int | None = None
    result: Outcome | None = None
    dataset_id: str | None = None
    dataset_name: str | None = None
    model: str | None = None
    priority: int = 0
    project: str = "default"
    metadata: dict[str, str] = Field(default_factory=dict)
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def metrics(self) -> dict[str, float]:
        """Return the final metrics by name; those measured so far if the job has no result."""
        if self.result is not None and self.result.metrics:
            return dict(self.result.metrics)
        return {} if self.progress is None else dict(self.progress.metrics)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.id}): {self.status}>"

    __str__ = __repr__


class JobView(JobSummary):
    """All about a job, as answered by `GET /v1/jobs/{id}`.

    Attributes:
        result: Result of the job with its files; None until it has ended.
        resolved_spec: The spec with each `auto` replaced by what the worker chose.
    """

    result: JobResult | None = None
    warnings: list[Warned] = Field(default_factory=list)
    attempts: list[AttemptView] = Field(default_factory=list)
    spec: dict[str, Any]
    resolved_spec: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None


class EventView(BaseModel):
    """One event of a job; `seq` has no gaps within the job."""

    seq: int
    at: datetime
    kind: str
    attempt_id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
