"""How a regression's values become the numbers that a model is trained on, and back.

Shapes: N rows.
"""

import math
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.failure import FailureCode
from redkiln.tables import explain_no_log
from worker.process.failed import TrainingFailed
from worker.trainer.tables.table import Table

Values = TypeVar("Values", NDArray[np.float64], torch.Tensor)

MOST_SMEARING = 2.0
"""Largest factor, because a single far error could dominate the mean."""


@dataclass(frozen=True)
class TargetScale:
    """Standardises values, or their natural logarithms.

    Attributes:
        mean: Mean of the training values, or of their logarithms.
        std: Standard deviation of the same.
        is_log: Whether it is those of the logarithms.
        reason: Why the job learns logarithms, if it chose that itself.
        smearing: Factor of the exponentials (`worker.tasks.tabular.smearing`).
    """

    mean: float
    std: float
    is_log: bool = False
    reason: str = ""
    smearing: float = 1.0

    @classmethod
    def of_logs(cls, table: Table, *, reason: str = "") -> Self:
        """Measure the logarithms of a table's training targets.

        Raises:
            TrainingFailed: A target is not above 0.
        """
        if refusal := find_no_log(table):
            pointer = "/training/target_transform"
            raise TrainingFailed(FailureCode.BAD_INPUT, refusal, pointer=pointer)
        logs = np.log(table.targets[: table.index.num_train])
        return cls(float(logs.mean()), float(logs.std()) or 1.0, is_log=True, reason=reason)

    @property
    def middle(self) -> float:
        """What is added to scaled outputs."""
        return self.mean + math.log(self.smearing)

    def standardise(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return what a model is trained on (N,)."""
        own = np.log(values) if self.is_log else values
        return ((own - self.mean) / self.std).astype(np.float32)

    def restore(self, outputs: Values) -> Values:
        """Return standardised values (N,) in the target's unit."""
        own = outputs * self.std + self.middle
        if not self.is_log:
            return own
        return torch.exp(own) if isinstance(own, torch.Tensor) else np.exp(own)


def find_log_errors(
    outputs: NDArray[np.floating], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the errors of the logarithms (N,) of predictions (N,) that are not below 0."""
    smallest = np.finfo(np.float32).tiny
    errors: NDArray[np.float64] = np.log(targets) - np.log(np.maximum(outputs, smallest))
    return errors


def find_smearing(errors: NDArray[np.float64]) -> float:
    """Return the factor for predictions whose logarithms have these errors (N,)."""
    return min(float(np.exp(errors - errors.mean()).mean()), MOST_SMEARING)


def find_no_log(table: Table) -> str | None:
    """Return why a table's targets have no logarithm; None if all have one."""
    rows = np.flatnonzero(~(table.targets > 0))
    if not len(rows):
        return None
    row = int(rows[0])
    place = None if table.places is None else table.places[row].as_py()
    return explain_no_log(table.index.target, float(table.targets[row]), place=place)
