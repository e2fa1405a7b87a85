"""Whether the validation rows of a table say enough to choose by."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.spec.tabular import RECOMMENDED
from worker.tasks.tabular.opened import TableJob, TabularSpec
from worker.trainer.plan import Plan

FEWEST_ROWS = 200
FEWEST_RARE = 30
"""Fewest validation rows, and of these outside the largest class, on which the smallest loss is not
found by chance. Folds of all training rows, too, need as many outside the largest class.
Source: bench/results/2026-11-28-few-validation-rows.md."""
LEAST_EPOCHS = 30
LEAST_STEPS = 250
"""Epochs or steps of an ensemble, whichever is less, before which its loss on few validation rows
says little. From 1,000 rows on, 30 epochs have so many steps that rare classes are learnt by heart.
Source: bench/results/2026-11-28-few-rows-tabm.md and 2026-11-29-rare-class-epochs.md."""


def describe_few(job: TableJob, spec: TabularSpec) -> str | None:
    """Return which validation rows are too few; None if there are enough."""
    rows = job.table.split(validation_fraction=spec.training.validation_fraction)["validation"]
    if len(rows) < FEWEST_ROWS:
        return f"{len(rows)} validation rows"
    if job.target is not None:
        return None
    num_rare = count_rare(job.targets[rows])
    few = f"{num_rare} validation rows outside the largest class"
    return few if num_rare < FEWEST_RARE else None


def count_rare(labels: NDArray[Any]) -> int:
    """Return the number of rows outside the largest class."""
    return len(labels) - int(np.bincount(labels.astype(np.int64)).max())


def choose_least_epochs(job: TableJob, spec: TabularSpec, *, plan: Plan) -> int:
    """Return the epochs that an ensemble trains before one of them can be the best.

    It is 0 with enough validation rows, and if the user chose when to stop early. Values, and rows
    with several labels, were not measured.

    Args:
        job: The opened table.
        spec: The job's spec.
        plan: Planned length.
    """
    early = spec.training.early_stopping
    is_default = early is None or early.patience == RECOMMENDED["early_stopping"]["patience"]
    if not is_default or job.target is not None or job.table.labels is not None:
        return 0
    if describe_few(job, spec) is None:
        return 0
    return min(LEAST_EPOCHS, -(-LEAST_STEPS // plan.steps_per_epoch), plan.epochs * 3 // 4)
