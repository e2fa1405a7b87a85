"""What a task passes to the trainer for a model that is not a network of torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.views.comparison import CrossValidation
from worker.jobdir import Order
from worker.process.event_log import EventLog


class Estimator(Protocol):
    """A model that grows in rounds.

    It is deterministic: growing ten rounds at once or one by one gives the same model.

    Attributes:
        num_rounds: Rounds so far.
    """

    num_rounds: int

    def grow(self, rounds: int) -> list[dict[str, float]]:
        """Add rounds; return the metrics of each of them by name (`train/...`, `val/...`)."""

    def cut(self, rounds: int) -> None:
        """Keep only the first rounds."""

    def tensors(self, rounds: int) -> dict[str, torch.Tensor]:
        """Return the model after its first rounds, as tensors by name."""

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Continue from a result of `tensors`."""

    def count(self, rounds: int) -> int:
        """Return the size of the model after its first rounds, such as its number of nodes."""


@dataclass(frozen=True)
class EstimatorSetup:
    """A prepared job whose model grows in rounds; a round counts as a step and as an epoch.

    Attributes:
        spec: Resolved spec.
        rounds: Most rounds.
        is_better: Whether the first validation metrics beat the second.
        counts: Number of samples in each split.
        reading: `worker.trainer.setup.TrainingSetup.reading`.
    """

    spec: TrainingSpec
    rounds: int
    estimator: Estimator
    is_better: Callable[[dict[str, float], dict[str, float]], bool]
    counts: dict[str, int]
    reading: str | None = None


class PrepareEstimator(Protocol):
    """Opens an order's data and builds its model, for `worker.trainer.estimators.loop`."""

    def __call__(
        self, order: Order, spec: JobSpec, *, event_log: EventLog, reading: str | None = None
    ) -> EstimatorSetup:
        """Prepare a job.

        Args:
            order: The job's order.
            spec: The spec as the user wrote it, or as resolved in the checkpoint to resume from.
            event_log: The log for what takes time and for warnings.
            reading: `EstimatorSetup.reading` of that checkpoint.
        """


class CrossValidate(Protocol):
    """Trains and scores one model for each fold of the training samples."""

    def __call__(
        self,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
        should_stop: Callable[[], bool],
    ) -> CrossValidation:
        """Return the scores of all folds.

        Args:
            order: The job's order.
            spec: The resolved spec of the exported model.
            device: The device to train on.
            event_log: Receives a message about each fold.
            should_stop: Returns whether somebody asked to stop.

        Raises:
            Stopped: a stop was requested; the folds begin again when the job is resumed.
        """


class EstimatorTask(Protocol):
    """The part of a task that trains estimators."""

    prepare_estimator: PrepareEstimator
    cross_validate: CrossValidate
