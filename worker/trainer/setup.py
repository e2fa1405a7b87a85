"""The prepared job that a task passes to the training loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from worker.export.exportable import Exportable
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.trainer.estimators.setup import CrossValidate, PrepareEstimator
from worker.trainer.inputs import Batch
from worker.trainer.insight.pace import Pace
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.models.backbone import Freezer
from worker.trainer.plan import Plan
from worker.trainer.ranks.distributed import Ranks


class Batches(Protocol):
    """Training batches, each a function of its epoch and its place in it.

    Attributes:
        pace: Measures the host's time for preparing them.
        ranks: Ranks that share each batch: `get` returns this rank's part (`Ranks.share`).
    """

    pace: Pace
    ranks: Ranks

    def get(self, epoch: int, place: int) -> Batch:
        """Return inputs and targets on the device, all with the batch as first dimension."""


class Evaluate(Protocol):
    """Scores the model on the validation split."""

    def __call__(self, *, should_stop: Callable[[], bool]) -> dict[str, float] | None:
        """Return metrics by name (`val/...`), or None if stopped."""


@dataclass(frozen=True)
class TrainingSetup:
    """A prepared job.

    Attributes:
        spec: Resolved spec, without `auto`.
        model: Called with a batch's inputs by position; returns one tensor.
        loss: Mean loss over the batch, from outputs and targets.
        evaluate: Scores the validation split, or None.
        is_better: Whether the first metrics beat the second.
        make_exportable: Returns the current model, ready for export.
        counts: Number of samples in each split.
        data_bytes: Size of all samples as training reads them; 0 if unknown.
        close: Stops the processes that prepare batches, after training.
        preview: Shows predictions for a few samples during training, never from the test split.
            None if the task has no preview.
        lay_out: Changes the memory layout of model and batches; None if there is only one.
        freezer: Called with the epoch before each step; None if the whole model is always trained.
        reading: How samples become the model's inputs, if the spec alone does not say: a tokenizer,
            or the columns of a table. Checkpoints store it so that a resumed run reads identically.
            Never empty.
        smaller_models: Networks that train faster on the same batches, by the value of `model` that
            chooses them.
        estimated_seconds: How long training takes, as measured before its first step; None if
            unknown.
        forward: Called with a batch's inputs instead of the model, by an engine that is not torch;
            None otherwise.
        facts: Further facts for the environment: the engine that is not torch and its device, and
            why `model: auto` is the model that it is.
        backbone_lr: Learning rate of the model's backbone as a share of that of its other layers.
        least_epochs: First epoch that can be the best, and from which early stopping counts; until
            then the newest one counts as the best.
    """

    spec: TrainingSpec
    plan: Plan
    model: nn.Module
    batches: Batches
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    evaluate: Evaluate | None
    is_better: Callable[[dict[str, float], dict[str, float]], bool]
    make_exportable: Callable[[], Exportable]
    counts: dict[str, int]
    data_bytes: int = 0
    close: Callable[[], None] = field(default=lambda: None)
    preview: ShowSamples | None = None
    lay_out: Callable[[torch.memory_format], None] | None = None
    freezer: Freezer | None = None
    reading: str | None = None
    smaller_models: Mapping[str, Callable[[], nn.Module]] = field(default_factory=dict)
    estimated_seconds: float | None = None
    forward: Callable[..., Any] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    backbone_lr: float = 1.0
    least_epochs: int = 0


class Prepare(Protocol):
    """Opens an order's data and builds its model on the device, for the loop."""

    def __call__(
        self,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
        reading: str | None = None,
    ) -> TrainingSetup:
        """Prepare a job.

        Args:
            order: The job's order.
            spec: The spec as the user wrote it, or as resolved in the checkpoint to resume from.
            device: The device to train on.
            event_log: The log for what takes time and for warnings.
            reading: `TrainingSetup.reading` of that checkpoint.
        """


class RunTask(Protocol):
    """Runs a whole job that exports no model."""

    def __call__(
        self,
        job_dir: JobDir,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
    ) -> None:
        """Write the job's files to `out/`, list them, and then write the RESULT event."""


class TrainerTask(Protocol):
    """The part of a task that the trainer uses.

    It has `run` if it exports no model, else `prepare`, and also `prepare_estimator` if some of its
    models are not networks of torch (`TrainingSpec.is_estimator`), and `cross_validate` if its
    specs can ask for folds (`TrainingSpec.num_folds`).
    """

    prepare: Prepare
    prepare_estimator: PrepareEstimator
    cross_validate: CrossValidate
    run: RunTask


LoadTask = Callable[[str], TrainerTask]
"""Finds a task by its name in a spec."""
