"""Outputs for training rows by trees that did not see them.

With few rows of a rare class all rows train, and no validation split is left to calibrate the
probabilities and to choose a decision threshold on. The trees' own outputs for their training rows
are far too certain. So the same settings are trained once more for each fold, without its rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from worker.export.target import Scored
from worker.tasks.tabular.boosting.trees import BoostedTrees, to_logits

FOLDS = 3


def score_held_out(trees: BoostedTrees, *, num_classes: int) -> Scored | None:
    """Train the folds, and return logits (N, C) and labels (N,) of the training rows.

    None if a class has a single training row, because a fold would be trained without it.

    Args:
        trees: Trees of a classifier, which are not changed.
        num_classes: C.
    """
    rows, settings = trees.rows, trees.model.get_params()
    labels: NDArray[np.int64] = rows.targets.astype(np.int64)
    known, counts = np.unique(labels, return_counts=True)
    if counts.min() < 2:
        return None
    folds = StratifiedKFold(
        min(FOLDS, int(counts.min())), shuffle=True, random_state=settings["random_state"]
    )
    model: Any = type(trees.model)(
        **{**settings, "max_iter": trees.num_rounds, "warm_start": False}
    )
    with threadpool_limits(limits=trees.threads):
        raw = cross_val_predict(
            model,
            rows.features,
            labels,
            cv=folds,
            method="decision_function",
            params={"sample_weight": rows.weights},
        )
    return to_logits(raw, known=known, num_classes=num_classes).astype(np.float32), labels
