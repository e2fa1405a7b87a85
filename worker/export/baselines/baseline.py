"""A model that costs little, for comparison with the trained one.

Shapes: N test samples, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Rows of a data set, in rising order."""


class Skipped(Exception):  # noqa: N818  nothing went wrong
    """A baseline was not trained; the text says why."""


@dataclass(frozen=True)
class Fitted:
    """A trained baseline's answers.

    Attributes:
        outputs: Logits (N, C) or values (N,), as the job's model returns them.
        note: How its training was shortened, as in `trained on 5,000 of 90,000 rows`.
    """

    outputs: NDArray[Any]
    note: str = ""


@dataclass(frozen=True)
class Baseline:
    """A baseline that a task offers.

    Attributes:
        name: Its name in a sentence, as in `gradient-boosted trees`.
        fit: Trains on the first rows and answers for the second ones, in about the given seconds.
            It raises `Skipped` if the data are too large for that.
    """

    name: str
    fit: Callable[[Rows, Rows, float], Fitted]


def choose_rows(rows: Rows, *, most: int) -> tuple[Rows, str]:
    """Choose at most this many rows at random, always the same ones, and say so in a note."""
    if len(rows) <= most:
        return rows, ""
    chosen = np.random.default_rng(0).choice(rows, size=most, replace=False)
    return np.sort(chosen), f"trained on {most:,} of {len(rows):,} samples"
