"""A sample as shown in a preview."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NUM_SHOWN = 24
"""Samples in a preview: a grid of six by four."""


@dataclass(frozen=True)
class Shown:
    """A model's prediction for one sample.

    Attributes:
        confidence: Probability of the prediction, or None.
        is_right: Whether the prediction is right; None if it is neither right nor wrong.
        image: (H, W, C) uint8, C 1 or 3; None if the sample is not an image.
        text: The sample in a few words, if it is not an image.
    """

    truth: str
    predicted: str
    confidence: float | None = None
    is_right: bool | None = None
    image: NDArray[np.uint8] | None = None
    text: str | None = None


def spread_rows(rows: Sequence[int], num: int = NUM_SHOWN) -> list[int]:
    """Return up to `num` evenly spaced rows, so that every class of a sorted split has some."""
    if len(rows) <= num:
        return list(rows)
    places = np.linspace(0, len(rows) - 1, num).round().astype(int)
    return [rows[place] for place in places]
