"""Calibration: one number that makes a classifier's probabilities as certain as they are right.

Logits are divided by a temperature, which changes no prediction. It is the one that makes the
validation split most likely.

Source: Guo et al., On Calibration of Modern Neural Networks (arXiv:1706.04599), section 4.2.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from worker.export.exportable import Predict
from worker.export.target import Samples

CANDIDATES = torch.logspace(math.log10(0.25), math.log10(8), 201)
PRIOR = 0.5
"""Standard deviation of the temperature's logarithm before any row is seen, so that few rows, or
rows without a mistake, hardly change it."""
BATCH = 256
SMALLEST = 1e-7
"""Probability below which float32 outputs are not told from 0."""


def calibrate(
    predict: Predict,
    samples: Samples,
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> float:
    """Return the temperature for a model that returns logits; 1 without rows.

    Args:
        predict: The model, with a temperature of 1.
        samples: Samples of all splits.
        labels: (N,) labels of all samples.
        rows: Rows of the validation split.
    """
    if not len(rows):
        return 1.0
    logits = [
        predict(samples.feed(samples.get(rows[start : start + BATCH])))
        for start in range(0, len(rows), BATCH)
    ]
    return find_temperature(
        torch.from_numpy(np.concatenate(logits)), torch.from_numpy(labels[rows])
    )


def find_label_temperatures(
    probabilities: NDArray[np.float32], targets: NDArray[Any]
) -> list[float]:
    """Return the temperature of each of several labels, for its logit against 0.

    A label has few samples and often no mistake on the validation split, on which the epoch was
    chosen, too. So one more answer counts as wrong, as in Platt's scaling.

    Source: Platt, Probabilistic outputs for support vector machines (1999), section 2.2; measured
    in bench/results/2026-11-27-journeys.md.

    Args:
        probabilities: (N, K) of the validation split, with temperatures of 1.
        targets: (N, K) labels, 0 or 1, of the same samples.
    """
    logits = torch.from_numpy(_to_logits(probabilities))
    both = torch.stack([torch.zeros_like(logits), logits], dim=2)
    labels = torch.from_numpy(targets.astype(np.int64))
    wrong = _one_mistake(len(labels))
    return [_fit(both[:, k], labels[:, k], wrong=wrong) for k in range(labels.shape[1])]


def apply_temperatures(
    probabilities: NDArray[np.float32], temperatures: Sequence[float]
) -> NDArray[np.float32]:
    """Return the probabilities (N, K) of a model with these temperatures (K,) instead of 1."""
    scaled = _to_logits(probabilities) / np.array(temperatures)
    return np.asarray(1 / (1 + np.exp(-scaled)), dtype=np.float32)


def _to_logits(probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    clipped = probabilities.astype(np.float64).clip(SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def find_temperature(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the most likely temperature of logits (N, C) with labels (N,).

    A few rows without a mistake say little about the next ones. So a model becomes more certain
    only as far as it would with one mistake more.
    """
    found = _fit(logits, labels, wrong=0.0)
    if found >= 1:
        return found
    return min(1.0, max(found, _fit(logits, labels, wrong=_one_mistake(len(labels)))))


def _one_mistake(num_rows: int) -> float:
    """Return the share of wrong labels that the rule of succession expects."""
    return 1 / (num_rows + 2)


def _fit(logits: torch.Tensor, labels: torch.Tensor, *, wrong: float) -> float:
    """Return the most likely temperature if this share of the labels is wrong."""
    penalties = 0.5 * (CANDIDATES.log() / PRIOR).square()
    num_classes = logits.shape[1]
    # torch spreads the smoothing over all classes, the right one among them.
    smoothing = wrong * num_classes / max(num_classes - 1, 1)
    losses = [
        functional.cross_entropy(
            logits.double() / temperature, labels, reduction="sum", label_smoothing=smoothing
        )
        for temperature in CANDIDATES
    ]
    return float(CANDIDATES[(torch.stack(losses) + penalties).argmin()])
