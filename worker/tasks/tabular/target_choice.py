"""Chooses whether a regression learns its target or the target's logarithm.

Shapes: N training rows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from worker.export.baselines.baseline import Skipped, choose_rows
from worker.tasks.tabular.baselines import list_baselines
from worker.trainer.tables.table import Preparation, Table
from worker.trainer.tables.target_scale import find_log_errors, find_no_log, find_smearing

LEAST_ROWS = 100
LEAST_SKEWNESS = 1.0
"""Skewness of the training targets from which both are compared; a normal distribution has 0."""
MOST_ERROR = 0.97
"""Part of the error of the target itself that simple models of the logarithm may have at most.
Source: bench/results/2026-11-29-log-target.md."""
MOST_ROWS = 2000
FOLDS = 3
SECONDS = 5.0
"""Time after which more trees of one model are not begun."""


def find_log_reason(table: Table, preparation: Preparation, train: NDArray[np.int64]) -> str | None:
    """Return why a job should learn the logarithm; None if it should learn the target itself.

    A linear model and boosted trees predict the training rows of folds, in both ways. The better
    one of the logarithm must be clearly better than the better one of the target itself.

    Args:
        table: The job's table.
        preparation: Preparation learnt from the training split.
        train: Rows to train on, without the validation split.
    """
    targets = table.targets[train].astype(np.float64)
    if len(train) < LEAST_ROWS or find_no_log(table) or skew(targets) < LEAST_SKEWNESS:
        return None
    rows, _ = choose_rows(train, most=MOST_ROWS)
    try:
        plain, logs = (_find_error(table, preparation, rows, is_log=way) for way in (False, True))
    except Skipped:
        return None
    if logs > MOST_ERROR * plain:
        return None
    name = table.index.target
    return (
        f"simple models predict held-out training rows with an RMSE of {logs:.4g} if they learn "
        f"the logarithm, and of {plain:.4g} if they learn {name} itself"
    )


def _find_error(
    table: Table, preparation: Preparation, rows: NDArray[np.int64], *, is_log: bool
) -> float:
    """Return the RMSE of the best simple model on rows that it was not trained on."""
    fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    targets = table.targets[rows].astype(np.float64)
    errors = []
    for baseline in list_baselines(table, preparation, is_log=is_log):
        found = np.empty(len(rows))
        for number in range(FOLDS):
            held = fold == number
            found[held] = baseline.fit(rows[~held], rows[held], SECONDS / FOLDS).outputs
        if is_log:
            found *= find_smearing(find_log_errors(found, targets))
        errors.append(float(np.sqrt(np.square(found - targets).mean())))
    return min(errors)
