"""Macro F1 of a confusion matrix, and how uncertain it is.

Shapes: B resamples, C classes.
"""

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Interval

FEW_SAMPLES = 20
"""Samples of one of two classes below which resamples say too little."""
POSTERIOR_DRAWS = 4000
RESAMPLES = 500


def count_pairs(pairs: list[tuple[int, int]], *, num_classes: int) -> NDArray[np.int64]:
    """Return how many samples (C, C) there are by true and answered class."""
    counts = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts, tuple(np.array(pairs, np.int64).T), 1)
    return counts


def macro_f1(matrix: NDArray[np.int64]) -> float:
    """Return the mean F1 of the classes that occur or were answered."""
    return float(_average_f1(_drop_unknown(matrix)[None].astype(np.float64))[0])


def find_interval(matrix: NDArray[np.int64]) -> Interval:
    """Return the 95 % interval of macro F1, as the export does."""
    known = _drop_unknown(matrix)
    if len(known) == 2 and known.sum(axis=1).min() < FEW_SAMPLES:
        return macro_f1_of_few(known)
    num = int(known.sum())
    drawn = np.random.default_rng(0).multinomial(num, known.ravel() / num, RESAMPLES)
    values = _average_f1(drawn.reshape(-1, *known.shape).astype(np.float64))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _drop_unknown(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    is_known = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    known: NDArray[np.int64] = matrix[is_known][:, is_known]
    return known


def macro_f1_of_few(matrix: NDArray[np.int64]) -> Interval:
    """Return an interval of macro F1 that holds with few samples of a class, too.

    The recall of each class, and what its other samples are taken for, is drawn from its posterior
    with Jeffreys' prior. Resamples of 5 samples of which none was found would all find none.

    Source: Goutte and Gaussier, A Probabilistic Interpretation of Precision, Recall and F-Score,
    2005.

    Args:
        matrix: (C, C) number of samples by true and predicted class.
    """
    generator = np.random.default_rng(0)
    nums = matrix.sum(axis=1)
    drawn = np.stack(
        [num * generator.dirichlet(row + 0.5, POSTERIOR_DRAWS)
         for row, num in zip(matrix, nums, strict=True)],
        axis=1,
    )  # (B, C, C) # fmt: skip
    values = _average_f1(drawn)
    own = float(_average_f1(matrix[None].astype(np.float64))[0])
    low, high = np.quantile(values, [0.025, 0.975])
    return min(float(low), own), max(float(high), own)


def _average_f1(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    right = np.diagonal(matrices, axis1=1, axis2=2)
    total = matrices.sum(axis=1) + matrices.sum(axis=2)
    f1: NDArray[np.float64] = 2 * right / np.maximum(total, 1e-12)
    found: NDArray[np.float64] = f1.mean(axis=1)
    return found
