"""How well a classifier's probabilities match the share of right answers.

Shapes: N samples, C classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.model import softmax

NUM_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Samples whose highest probability is in one range.

    Attributes:
        low: Lower end of the range.
        high: Upper end of the range, which belongs to it.
        confidence: Mean of their highest probabilities.
        accuracy: Share of right answers among them.
    """

    low: float
    high: float
    num: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """The calibration curve in ranges of equal width, and its mean distance from the diagonal.

    Attributes:
        error: Expected calibration error: the mean of |accuracy - confidence| over all samples.
            Source: Guo et al. (2017), On calibration of modern neural networks, section 2.
        bins: Ranges with at least one sample.
    """

    error: float
    bins: list[Bin]

    def describe(self, *, noun: str) -> str:
        """Return the curve as a Markdown table with a sentence before it."""
        rows = "\n".join(
            f"| {one.low:.1f} to {one.high:.1f} | {one.num:,} | {one.confidence:.3f} "
            f"| {one.accuracy:.3f} |"
            for one in self.bins
        )
        return (
            f"Expected calibration error: {self.error:.4f}, the mean distance between the highest "
            "probability and the share of right answers in these ranges.\n\n"
            f"| highest probability | test {noun} | mean probability | right answers |\n"
            f"|---|---|---|---|\n{rows}"
        )


def measure_calibration(outputs: NDArray[np.float32], targets: NDArray[Any]) -> Calibration:
    """Return the calibration of (N, C) logits against (N,) labels."""
    chances = softmax(outputs)
    confidence = chances.max(axis=1)
    is_right = chances.argmax(axis=1) == targets
    places = np.clip(np.ceil(confidence * NUM_BINS).astype(int) - 1, 0, NUM_BINS - 1)
    bins = []
    for place in range(NUM_BINS):
        chosen = places == place
        if chosen.any():
            bins.append(
                Bin(
                    low=place / NUM_BINS,
                    high=(place + 1) / NUM_BINS,
                    num=int(chosen.sum()),
                    confidence=float(confidence[chosen].mean()),
                    accuracy=float(is_right[chosen].mean()),
                )
            )
    total = sum(one.num * abs(one.accuracy - one.confidence) for one in bins)
    return Calibration(error=total / len(targets), bins=bins)
