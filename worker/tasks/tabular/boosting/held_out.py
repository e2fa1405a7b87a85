"""Outputs for training rows by trees that did not see them.

A small table, or one with a rare class, trains on all rows, so no validation split is left to
choose the number of iterations, to calibrate the probabilities, and to choose a decision threshold
on. The trees' own outputs for their training rows are far too certain. So the same settings are
trained once more for each fold, without its rows.

Shapes: N rows, C classes.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from torch.nn import functional

from worker.export.scoring.temperature import find_temperature
from worker.export.target import Outputs, Scored
from worker.tasks.tabular.boosting.trees import BoostedTrees, Raw, TreeRows, predict_raw, to_logits

FOLDS = 3
USUAL_ROUNDS = 100
"""Iterations that do well without any choice; scikit-learn's default."""
ROUNDS = (10, 20, 30, 40, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200)
"""Numbers of iterations that are compared; between two of them the loss hardly differs."""
MOST_WORSE = 3
"""Compared numbers without a smaller loss after which none is expected."""


class Folds:
    """Trees of each fold, which grow together.

    Args:
        trees: Trees, which are not changed. Rows of a class with a single row are left out, because
            the fold with this row would be trained without the class.
        num_classes: C; None for a regression.

    Raises:
        ValueError: Fewer than two classes have two rows, or there are fewer rows than folds.
    """

    def __init__(self, trees: BoostedTrees, *, num_classes: int | None) -> None:
        rows, self._num_classes = trees.rows, num_classes
        kept, folds = np.ones(len(rows.targets), bool), FOLDS
        self._known: NDArray[np.int64] = np.zeros(0, np.int64)
        if num_classes is not None:
            known, counts = np.unique(rows.targets.astype(np.int64), return_counts=True)
            self._known, counts = known[counts > 1], counts[counts > 1]
            if len(self._known) < 2:
                raise ValueError("fewer than two classes have two training rows")
            kept, folds = np.isin(rows.targets, self._known), min(FOLDS, int(counts.min()))
        self._features, self.targets = rows.features[kept], rows.targets[kept]
        weights = None if rows.weights is None else rows.weights[kept]
        seed = trees.model.get_params()["random_state"]
        splitter = KFold if num_classes is None else StratifiedKFold
        split = splitter(folds, shuffle=True, random_state=seed).split(self._features, self.targets)
        self._parts = [(self._build(trees, train, weights), held) for train, held in split]

    def grow(self, rounds: int) -> Scored:
        """Grow to a number of iterations; return outputs and targets (N,) of the rows.

        The outputs are logits (N, C), or standardised values (N,).
        """
        shape = () if self._num_classes is None else (self._num_classes,)
        outputs = np.empty((len(self.targets), *shape), np.float32)
        for trees, held in self._parts:
            if rounds > trees.num_rounds:
                trees.grow(rounds - trees.num_rounds)
            outputs[held] = self._read(predict_raw(trees.model, self._features[held]))
        return outputs, self.targets

    def _read(self, raw: Raw) -> NDArray[np.float64]:
        if self._num_classes is None:
            return raw
        return to_logits(raw, known=self._known, num_classes=self._num_classes)

    def _build(
        self, trees: BoostedTrees, train: NDArray[np.int64], weights: NDArray[np.float64] | None
    ) -> BoostedTrees:
        model: Any = type(trees.model)(**trees.model.get_params())
        rows = TreeRows(
            features=self._features[train],
            targets=self.targets[train],
            validation=self._features[:0],
            weights=None if weights is None else weights[train],
        )
        return BoostedTrees(model, rows, score=lambda _: {}, threads=trees.threads)


def score_held_out(trees: BoostedTrees, *, num_classes: int) -> Scored | None:
    """Train the folds, and return logits (N, C) and labels (N,) of the training rows.

    None if fewer than two classes have two rows.

    Args:
        trees: Trees of a classifier.
        num_classes: C.
    """
    try:
        return Folds(trees, num_classes=num_classes).grow(trees.num_rounds)
    except ValueError:
        return None


def choose_rounds(trees: BoostedTrees, *, num_classes: int | None, most: int) -> int:
    """Return how many iterations predict the rows of the folds best.

    Probabilities are calibrated, and judged by log loss; values by their square error. The usual
    number is kept unless its loss is larger than the smallest one by more than a standard error of
    this difference.

    Args:
        trees: Trees, which may have no round yet.
        num_classes: C; None for a regression.
        most: Largest number of iterations.
    """
    usual, losses = min(USUAL_ROUNDS, most), dict[int, NDArray[np.float64]]()
    try:
        folds = Folds(trees, num_classes=num_classes)
    except ValueError:
        return usual
    measure = _square_errors if num_classes is None else _calibrated_losses
    for rounds in [*(number for number in ROUNDS if number < most), most]:
        losses[rounds] = measure(*folds.grow(rounds))
        means = [float(one.mean()) for one in losses.values()]
        if rounds >= usual and len(means) - 1 - int(np.argmin(means)) >= MOST_WORSE:
            break
    best = min(losses, key=lambda number: float(losses[number].mean()))
    gains = losses[usual] - losses[best]
    return best if gains.mean() > gains.std() / np.sqrt(len(gains)) else usual


def _square_errors(values: Outputs, targets: NDArray[Any]) -> NDArray[np.float64]:
    """Return the square error of each row."""
    squares: NDArray[np.float64] = np.square(values.astype(np.float64) - targets)
    return squares


def _calibrated_losses(outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log loss of each row."""
    logits, labels = torch.from_numpy(outputs), torch.from_numpy(targets)
    divided = logits.double() / find_temperature(logits, labels)
    return functional.cross_entropy(divided, labels, reduction="none").numpy()
