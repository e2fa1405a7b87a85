"""Calibration: one number that makes a classifier's probabilities as certain as they are right.

Logits are divided by a temperature, which changes no prediction. It is the one that makes the
validation split most likely.

Source: Guo et al., On Calibration of Modern Neural Networks (arXiv:1706.04599), section 4.2.
"""

import math

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


def find_temperature(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the most likely temperature of logits (N, C) with labels (N,)."""
    penalties = 0.5 * (CANDIDATES.log() / PRIOR).square()
    losses = [
        functional.cross_entropy(logits.double() / temperature, labels, reduction="sum")
        for temperature in CANDIDATES
    ]
    return float(CANDIDATES[(torch.stack(losses) + penalties).argmin()])
