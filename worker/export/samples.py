"""Chooses the real samples for the comparison, and those that go into `parity.npz`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.verify import FEW

MIN_COMPARED = 256
MAX_COMPARED = 1000
"""Test samples that the trained model answers, too, if the file repeats its answers to them."""
MAX_SAVED = 2000
MAX_SAVED_BYTES = 32 * 2**20


@dataclass(frozen=True)
class ComparedSamples:
    """Rows of a data set.

    Attributes:
        rows: Rows of the test split, followed by validation and training rows if it is small.
        num_test: Number of test rows; only these are scored.
        places: Places in `rows` of those that both runtimes answer, the first ones among them.
    """

    rows: NDArray[np.int64]
    num_test: int
    places: NDArray[np.int64]


def choose_samples(*, test: NDArray[np.int64], others: NDArray[np.int64]) -> ComparedSamples:
    """Return all of the test split, and other samples up to 256; both runtimes answer 1,000.

    The trained model runs on the CPU, where it often takes longer than ONNX Runtime.

    Args:
        test: Rows of the test split.
        others: Rows to fill up with, preferred ones first.
    """
    missing = max(0, MIN_COMPARED - len(test))
    rows = np.concatenate([test, others[:missing]])
    return ComparedSamples(rows, num_test=len(test), places=_choose_compared(len(rows)))


def _choose_compared(num: int) -> NDArray[np.int64]:
    if num <= MAX_COMPARED:
        return np.arange(num)
    spaced = np.linspace(0, num - 1, MAX_COMPARED).astype(np.int64)
    return np.union1d(np.arange(FEW), spaced)


def choose_saved(num: int, *, bytes_each: int) -> NDArray[np.int64]:
    """Return evenly spaced indices of `num` samples: at most 2000 and 32 MiB, but at least 256."""
    fitting = min(MAX_SAVED, MAX_SAVED_BYTES // bytes_each)
    count = min(num, max(MIN_COMPARED, fitting))
    return np.linspace(0, num - 1, count).round().astype(np.int64)
