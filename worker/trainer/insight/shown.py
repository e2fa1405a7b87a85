"""A sample as a preview shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NUM_SHOWN = 24
"""Samples of a preview: a grid of six by four."""


@dataclass(frozen=True)
class Shown:
    """What a model made of one sample.

    Attributes:
        confidence: probability of what is predicted; None where there is none.
        is_right: None where a prediction is neither right nor wrong.
        image: (H, W, C) uint8, C 1 or 3; None for samples that are no images.
        text: of those: the sample in a few words.
    """

    truth: str
    predicted: str
    confidence: float | None = None
    is_right: bool | None = None
    image: NDArray[np.uint8] | None = None
    text: str | None = None


def spread_rows(rows: Sequence[int], num: int = NUM_SHOWN) -> list[int]:
    """Up to so many of some rows, evenly apart, so that every class of a sorted split has some."""
    if len(rows) <= num:
        return list(rows)
    places = np.linspace(0, len(rows) - 1, num).round().astype(int)
    return [rows[place] for place in places]
