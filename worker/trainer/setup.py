"""What a task gives to the training loop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import nn

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from worker.export.exportable import Exportable
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.trainer.inputs import Batch
from worker.trainer.insight.pace import Pace
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.models.backbone import Freezer
from worker.trainer.plan import Plan
from worker.trainer.ranks.distributed import Ranks


class Batches(Protocol):
    """Training batches, each a function of its epoch and its place in it.

    Attributes:
        pace: what it takes the host to make them.
        ranks: that share each batch: what is got is this rank's part of it (`Ranks.share`).
    """

    pace: Pace
    ranks: Ranks

    def get(self, epoch: int, place: int) -> Batch:
        """Inputs and targets on the device, all with the batch as their first dimension."""


class Evaluate(Protocol):
    """Scores the model on the validation split."""

    def __call__(self, *, should_stop: Callable[[], bool]) -> dict[str, float] | None:
        """Metrics by name (`val/...`), or None when it was stopped."""


@dataclass(frozen=True)
class TrainingSetup:
    """A prepared job.

    Attributes:
        spec: with nothing left at `auto`.
        model: called with a batch's inputs by position; gives one tensor.
        loss: of outputs and targets, a mean over the batch.
        evaluate: None where no validation split was asked for.
        is_better: whether metrics beat the best ones so far.
        make_exportable: the model as it is now, ready for export.
        counts: samples in each split.
        data_bytes: that all samples take as training reads them; 0 where nobody says.
        close: ends what makes batches beside the loop, when training is over.
        preview: what the model makes of a few samples, for people to look at while it trains; never
            of the test split. None where a task shows none.
        lay_out: brings model and batches into another layout in memory; None where a task has but
            one.
        freezer: told the epoch before each step; None where all of the model is always trained.
        reading: how samples become the model's inputs, where that does not follow from the spec: a
            tokenizer, the columns of a table. Checkpoints keep it, so that whoever goes on reads in
            the same way. It is not empty.
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
    """Does a job that exports no model, from its start to its end."""

    def __call__(
        self,
        job_dir: JobDir,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
    ) -> None:
        """Leave the job's files in `out/`, listed, and then the RESULT event."""


class TrainerTask(Protocol):
    """What the trainer uses of a task: `run` where it exports no model, else `prepare`."""

    prepare: Prepare
    run: RunTask


LoadTask = Callable[[str], TrainerTask]
"""Finds a task by the name that a spec gives it."""
