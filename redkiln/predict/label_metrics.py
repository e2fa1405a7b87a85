"""Metrics of a model that gives each sample several labels, for equal or weighted samples.

Shapes: N samples, K classes, B resamples. With weights (B, N), each metric returns (B,).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Weights = NDArray[np.float64]
USUAL = 0.5
SMALLEST = 1e-7
"""Smallest probability in the loss, so that the logarithm is finite."""


@dataclass(frozen=True)
class Answers:
    """A model's answers next to the truth.

    Attributes:
        probabilities: (N, K) probability of each class.
        is_true: (N, K) whether a class is a label of the sample.
        found: (N, K) whether the probability reaches the class's threshold.
    """

    probabilities: Floats
    is_true: NDArray[np.bool_]
    found: NDArray[np.bool_]

    @classmethod
    def of(
        cls, probabilities: Floats, targets: NDArray[Any], thresholds: Sequence[float] | None = None
    ) -> Self:
        """Decide by thresholds (K,), or 0.5; targets (N, K) are 1 for the labels of a sample."""
        return cls(probabilities, targets.astype(bool), decide(probabilities, thresholds))


def mean_average_precision(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the mean of the classes' average precision."""
    found = average_precisions(answers.probabilities, answers.is_true, weights)
    return _mean_where(found, np.isfinite(found))


def macro_f1(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the mean F1 of the classes that occur or were found."""
    hits, both = _count(answers, weights)
    return _mean_where(_divide(2 * hits, both), both > 0)


def micro_f1(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the F1 of all decisions together."""
    hits, both = _count(answers, weights)
    return _divide(2 * hits.sum(axis=1), both.sum(axis=1))


def subset_accuracy(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the share of samples whose labels are all right."""
    right = (answers.found == answers.is_true).all(axis=1)
    return _average(right.astype(np.float64), weights)


def hamming_loss(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the share of wrong decisions."""
    return _average((answers.found != answers.is_true).mean(axis=1), weights)


def binary_log_loss(answers: Answers, weights: Weights) -> NDArray[np.float64]:
    """Return the mean binary cross-entropy."""
    chances = np.clip(answers.probabilities.astype(np.float64), SMALLEST, 1 - SMALLEST)
    losses = -np.where(answers.is_true, np.log(chances), np.log1p(-chances))
    return _average(losses.mean(axis=1), weights)


METRICS: dict[str, Callable[[Answers, Weights], NDArray[np.float64]]] = {
    "map": mean_average_precision,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "accuracy": subset_accuracy,
    "hamming_loss": hamming_loss,
    "loss": binary_log_loss,
}


def score_once(
    probabilities: Floats, targets: NDArray[Any], thresholds: Sequence[float] | None = None
) -> dict[str, float]:
    """Return all of METRICS that are defined, for samples that count once; see `Answers.of`."""
    answers, once = Answers.of(probabilities, targets, thresholds), np.ones((1, len(targets)))
    found = {name: float(metric(answers, once)[0]) for name, metric in METRICS.items()}
    return {name: value for name, value in found.items() if np.isfinite(value)}


def decide(probabilities: Floats, thresholds: Sequence[float] | None) -> NDArray[np.bool_]:
    """Return (N, K), whether each class is a label."""
    limits = USUAL if thresholds is None else np.asarray(thresholds, np.float32)
    is_label: NDArray[np.bool_] = probabilities >= limits
    return is_label


def average_precisions(
    probabilities: Floats, is_true: NDArray[np.bool_], weights: Weights
) -> NDArray[np.float64]:
    """Return each class's average precision, (B, K); NaN for one without samples.

    It is the mean precision at the threshold of each of its samples. Source: scikit-learn's
    `average_precision_score`, which computes the same sum without interpolation.
    """
    columns = [
        _average_precision(probabilities[:, place], is_true[:, place], weights)
        for place in range(is_true.shape[1])
    ]
    return np.stack(columns, axis=1)


def _average_precision(
    scores: Floats, is_class: NDArray[np.bool_], weights: Weights
) -> NDArray[np.float64]:
    order = np.argsort(-scores, kind="stable")
    # Samples with equal scores are one group, (B, groups).
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.inf))
    ordered = weights[:, order]
    positive = np.add.reduceat(ordered * is_class[order], starts, axis=1)
    everything = np.add.reduceat(ordered, starts, axis=1)
    precision = _divide(np.cumsum(positive, axis=1), np.cumsum(everything, axis=1))
    total = positive.sum(axis=1)
    found = _divide((positive * precision).sum(axis=1), total)
    return np.where(total > 0, found, np.nan)


def _count(answers: Answers, weights: Weights) -> tuple[Weights, Weights]:
    """Return the right labels of each class, and the true plus the found ones, (B, K) each."""
    hits = weights @ (answers.found & answers.is_true)
    return hits, weights @ (answers.found.astype(np.float64) + answers.is_true)


def _average(values: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    means: NDArray[np.float64] = weights @ values / weights.sum(axis=1)
    return means


def _mean_where(values: NDArray[np.float64], is_known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the mean of the known values of each row, NaN for a row without any."""
    num = is_known.sum(axis=1)
    means = _divide(np.where(is_known, values, 0.0).sum(axis=1), num)
    return np.where(num > 0, means, np.nan)


def _divide(numbers: NDArray[np.float64], by: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; the result is 0 where the divisor is 0."""
    filled = np.zeros_like(numbers, dtype=np.float64)
    np.divide(numbers, by, out=filled, where=by > 0)
    return filled
