"""Baselines of a table: a linear model and gradient-boosted trees.

Shapes: N rows, F numeric columns, K categorical columns, M numeric columns with gaps.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from worker.export.baselines.baseline import Baseline, Fitted, Rows, choose_rows
from worker.export.baselines.learners import (
    fit_linear,
    fit_linear_labels,
    fit_tree_labels,
    fit_trees,
    most_rows,
)
from worker.trainer.tables.table import Preparation, Table, prepare_numbers

Fit = Callable[[Rows, Rows, float], Fitted]
"""What `Baseline.fit` is."""

MOST_LOG = 80.0
"""Largest logarithm of a prediction, so that squares of errors stay finite."""
MOST_ONE_HOT = 50
"""Categories of a column that the linear model reads, the most frequent ones."""
TEST_BLOCK = 20_000
MOST_TREE_CATEGORIES = 255
"""More categories of a column are compared as numbers. Source: scikit-learn's histogram trees."""


def list_baselines(
    table: Table, preparation: Preparation, *, is_log: bool = False
) -> list[Baseline]:
    """Return the baselines of a classification or a regression.

    Args:
        table: The job's table.
        preparation: Preparation learnt from the training split.
        is_log: Whether they are trained on the logarithms of a regression's targets, as the job is.
    """
    if table.labels is not None:
        return [
            Baseline("linear models", partial(_fit_linear, table, preparation)),
            Baseline("gradient-boosted trees", partial(_fit_trees, table)),
        ]
    own = replace(table, targets=np.log(table.targets)) if is_log else table
    fits = {
        "linear model": partial(_fit_linear, own, preparation),
        "gradient-boosted trees": partial(_fit_trees, own),
    }
    return [Baseline(name, _restored(fit) if is_log else fit) for name, fit in fits.items()]


def _restored(fit: Fit) -> Fit:
    """Return a function that also turns logarithms into the target's unit."""

    def fit_logs(train: Rows, test: Rows, seconds: float) -> Fitted:
        fitted = fit(train, test, seconds)
        return replace(fitted, outputs=np.exp(np.minimum(fitted.outputs, MOST_LOG)))

    return fit_logs


def _fit_linear(
    table: Table, preparation: Preparation, train: Rows, test: Rows, seconds: float
) -> Fitted:
    widths = [min(num, MOST_ONE_HOT) for num in preparation.num_categories]
    num_features = preparation.num_numbers + sum(widths)
    some, note = choose_rows(train, most=most_rows(num_features))
    features = _plain_features(table, preparation, widths, some)
    asked = (_plain_features(table, preparation, widths, rows) for rows in _blocks(test))
    if table.labels is None:
        fitted = fit_linear(
            features, table.targets[some], asked, seconds=seconds, classes=_num_classes(table)
        )
    else:
        fitted = fit_linear_labels(features, table.labels[some], asked, seconds=seconds)
    return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))


def _fit_trees(table: Table, train: Rows, test: Rows, seconds: float) -> Fitted:
    num_features = len(table.index.columns)
    some, note = choose_rows(train, most=most_rows(num_features))
    are_codes = [len(column.categories) <= MOST_TREE_CATEGORIES for column in table.categorical]
    categorical = [*(False for _ in table.numeric), *are_codes]
    features = _tree_features(table, some)
    asked = (_tree_features(table, rows) for rows in _blocks(test))
    if table.labels is None:
        fitted = fit_trees(
            features,
            table.targets[some],
            asked,
            seconds=seconds,
            classes=_num_classes(table),
            categorical=categorical,
        )
    else:
        fitted = fit_tree_labels(
            features, table.labels[some], asked, seconds=seconds, categorical=categorical
        )
    return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))


def _blocks(rows: Rows) -> list[Rows]:
    """Split the rows, so that their features never take much memory at once."""
    return np.array_split(rows, -(-len(rows) // TEST_BLOCK))


def _num_classes(table: Table) -> int | None:
    return len(table.index.classes) or None


def _plain_features(
    table: Table, preparation: Preparation, widths: list[int], rows: Rows
) -> NDArray[np.float32]:
    """Return standardised numbers, flags of gaps, and one column for each category."""
    parts = [prepare_numbers(table.numbers[rows], preparation)]
    for place, width in enumerate(widths):
        parts.append((table.codes[rows, place, None] == np.arange(width)).astype(np.float32))
    return np.concatenate(parts, axis=1)


def _tree_features(table: Table, rows: Rows) -> NDArray[np.float32]:
    """Return numbers and codes (N, F + K), NaN if missing."""
    codes = table.codes[rows].astype(np.float32)
    codes[codes < 0] = np.nan
    numbers = np.where(np.isfinite(table.numbers[rows]), table.numbers[rows], np.nan)
    return np.concatenate([numbers, codes], axis=1).astype(np.float32)
