"""Chooses the real samples for the comparison, and those that go into `parity.npz`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_COMPARED = 256
MAX_SAVED = 2000
MAX_SAVED_BYTES = 32 * 2**20


@dataclass(frozen=True)
class ComparedSamples:
    """Rows of a data set.

    Attributes:
        rows: Rows of the test split, followed by validation and training rows if it is small.
        num_test: Number of test rows; only these are scored.
    """

    rows: NDArray[np.int64]
    num_test: int


def choose_samples(*, test: NDArray[np.int64], others: NDArray[np.int64]) -> ComparedSamples:
    """Return all of the test split, and other samples up to 256.

    Args:
        test: Rows of the test split.
        others: Rows to fill up with, preferred ones first.
    """
    missing = max(0, MIN_COMPARED - len(test))
    rows = np.concatenate([test, others[:missing]])
    return ComparedSamples(rows, num_test=len(test))


def choose_saved(num: int, *, bytes_each: int) -> NDArray[np.int64]:
    """Return evenly spaced indices of `num` samples: at most 2000 and 32 MiB, but at least 256."""
    fitting = min(MAX_SAVED, MAX_SAVED_BYTES // bytes_each)
    count = min(num, max(MIN_COMPARED, fitting))
    return np.linspace(0, num - 1, count).round().astype(np.int64)
