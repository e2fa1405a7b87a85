"""`trained.json`: the trainer's result, which the export child reads."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from redkiln.views.comparison import CrossValidation
from redkiln.views.job import PreviewNote
from worker.results.efficiency import Efficiency
from worker.results.findings import FirstSteps


class Trained(BaseModel):
    """The result of a training.

    Attributes:
        spec: Resolved spec, without `auto`.
        best: Name of the checkpoint to export.
        last: Name of the newest checkpoint, whose history is complete.
        metrics: Validation metrics of the best checkpoint.
        steps: Optimiser updates done; fewer than planned after early stopping.
        counts: Number of samples in each split.
        first_step_at: Time when this attempt finished its first step; None without any step.
        seconds: Time spent in each phase so far.
        estimated_seconds: How long training was expected to take before its first step.
        first_steps: The guard's findings in the first steps; None on a CPU.
        advice: Changes that would make such a training faster.
        efficiency: How well this attempt used its machine; None if it did no step.
        preview: Newest sample predictions.
        cross_validation: Scores of the folds, if the spec asks for folds.
        finished_early: Whether the user asked for the best model before all planned steps.
        fine_tuned: Whether the newest checkpoint has the network that is fine-tuned for int8.
    """

    spec: dict[str, Any]
    best: str
    best_step: int
    best_epoch: int
    last: str
    steps: int
    planned_steps: int
    steps_per_epoch: int
    metrics: dict[str, float]
    counts: dict[str, int]
    num_parameters: int
    first_step_at: datetime | None
    seconds: dict[str, float]
    environment: dict[str, Any]
    estimated_seconds: float | None = None
    first_steps: FirstSteps | None = None
    advice: list[str] = []
    efficiency: Efficiency | None = None
    preview: PreviewNote | None = None
    cross_validation: CrossValidation | None = None
    finished_early: bool = False
    fine_tuned: bool = False
