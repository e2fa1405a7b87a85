"""Which real samples the comparison is made on, and which of them go into `parity.npz`."""

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
        rows: the test split, then, if it is small, validation and training rows to fill it up.
        num_test: how many of them are the test split; only these are scored.
    """

    rows: NDArray[np.int64]
    num_test: int


def choose_samples(*, test: NDArray[np.int64], others: NDArray[np.int64]) -> ComparedSamples:
    """All of the test split, and other samples up to 256.

    Args:
        test: rows of the test split.
        others: rows that may fill up, the preferred ones first.
    """
    missing = max(0, MIN_COMPARED - len(test))
    rows = np.concatenate([test, others[:missing]])
    return ComparedSamples(rows, num_test=len(test))


def choose_saved(num: int, *, bytes_each: int) -> NDArray[np.int64]:
    """Evenly spaced places among `num` samples: at most 2000 and 32 MiB, but at least 256."""
    fitting = min(MAX_SAVED, MAX_SAVED_BYTES // bytes_each)
    count = min(num, max(MIN_COMPARED, fitting))
    return np.linspace(0, num - 1, count).round().astype(np.int64)
