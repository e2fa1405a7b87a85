"""Metrics of a classifier, for equal or weighted samples.

Shapes: N samples, C classes, B resamples. With weights (B, N), each metric returns (B,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.export.scoring.intervals import Weights, average

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]
Metric = Callable[[Logits, Labels, Weights], NDArray[np.float64]]


def accuracy(logits: Logits, labels: Labels, weights: Weights) -> NDArray[np.float64]:
    """Return the share of samples whose highest output is their label."""
    right = (logits.argmax(axis=1) == labels).astype(np.float64)
    return average(right, weights)


def log_loss(logits: Logits, labels: Labels, weights: Weights) -> NDArray[np.float64]:
    """Return the mean negative log-likelihood of the labels."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    return average(log_sums - shifted[np.arange(len(labels)), labels], weights)


def macro_f1(logits: Logits, labels: Labels, weights: Weights) -> NDArray[np.float64]:
    """Return the mean F1 of the classes that occur or were predicted."""
    predicted, num_classes = logits.argmax(axis=1), logits.shape[1]
    hits = labels == predicted
    right = _sum_by_class(weights[:, hits], labels[hits], num_classes)
    both = _sum_by_class(weights, labels, num_classes)
    both += _sum_by_class(weights, predicted, num_classes)
    scores = _divide(2 * right, both, otherwise=0.0)
    return _divide(scores.sum(axis=1), (both > 0).sum(axis=1))


def auc(logits: Logits, labels: Labels, weights: Weights) -> NDArray[np.float64]:
    """Return the area under the ROC curve, for more than two classes the mean of one against rest.

    It is the chance that a sample of a class gets a higher probability for it than a sample of
    another class. Classes without samples do not count; without any, it is NaN.
    """
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    scores = np.exp(shifted)
    scores /= scores.sum(axis=1, keepdims=True)
    if logits.shape[1] == 2:
        # Differences of logits keep their order where probabilities are rounded to 0 or 1.
        return _area(shifted[:, 1] - shifted[:, 0], labels == 1, weights)
    areas = np.stack(
        [_area(scores[:, c], labels == c, weights) for c in np.unique(labels)]
    )  # (C, B)
    known = np.isfinite(areas)
    sums = np.where(known, areas, 0).sum(axis=0)
    return _divide(sums, known.sum(axis=0))


def _area(
    scores: NDArray[np.float64], is_class: NDArray[np.bool_], weights: Weights
) -> NDArray[np.float64]:
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf))
    ordered, inside = weights[:, order], np.flatnonzero(is_class[order])
    positive = ordered[:, inside]
    ordered[:, inside] = 0
    negative = ordered if len(starts) == len(order) else np.add.reduceat(ordered, starts, axis=1)
    # Negative samples below each group of equal scores, and half of those in it, (B, groups).
    below = np.cumsum(negative, axis=1)
    below -= negative / 2
    group = np.searchsorted(starts, inside, side="right") - 1
    won = np.einsum("bn,bn->b", positive, below[:, group])
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return _divide(won, pairs)


def _divide(
    numbers: NDArray[np.float64], by: NDArray[Any], *, otherwise: float = np.nan
) -> NDArray[np.float64]:
    """Divide; the result is `otherwise` where the divisor is 0."""
    filled = np.full_like(numbers, otherwise)
    np.divide(numbers, by, out=filled, where=by > 0)
    return filled


def _sum_by_class(weights: Weights, labels: Labels, num_classes: int) -> NDArray[np.float64]:
    """Return the weights of each class, (B, C)."""
    num = len(weights)
    places = labels + num_classes * np.arange(num)[:, None]
    counts = np.bincount(places.ravel(), weights=weights.ravel(), minlength=num * num_classes)
    return counts.astype(np.float64).reshape(num, num_classes)


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "loss": log_loss,
    "macro_f1": macro_f1,
    "auc": auc,
}
