"""`trained.json`: what the trainer leaves for the export child."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from redkiln.views.job import PreviewNote
from worker.results.efficiency import Efficiency
from worker.results.findings import FirstSteps


class Trained(BaseModel):
    """A finished training.

    Attributes:
        spec: with nothing left at `auto`.
        best: name of the checkpoint to export.
        last: name of the newest one, whose history is complete.
        metrics: of the best checkpoint on the validation split.
        steps: optimiser updates made; fewer than planned when it stopped early.
        counts: samples in each split.
        first_step_at: when this attempt had made its first step; None if all were made before it.
        seconds: spent in each phase so far.
        first_steps: what the guard saw of them; None on a CPU.
        advice: what would make such a training faster.
        efficiency: how well it used its machine; None when this attempt made no step.
        preview: the newest sample predictions.
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
    first_steps: FirstSteps | None = None
    advice: list[str] = []
    efficiency: Efficiency | None = None
    preview: PreviewNote | None = None
