"""How sure average precisions are: bootstrap intervals over images."""

import time
from collections.abc import Sequence

import numpy as np

from redkiln.predict.boxes.scores import METRICS, Detections, Kind, MatchedImages
from redkiln.views.comparison import Interval

RESAMPLES, FEWEST_RESAMPLES = 500, 50
MOST_SECONDS = 10.0
"""Time that all resamples of the images may take."""
RESAMPLED_SCORE = 0.01
"""Boxes with a lower score hardly change an average precision, and most boxes have one."""


def find_box_intervals(
    found: Sequence[Detections],
    truth: Sequence[Detections],
    *,
    num_classes: int,
    kind: Kind = "bbox",
) -> dict[str, Interval]:
    """Return 95 % intervals of `map`, `map50` and `map75`; none if that would take long.

    Args:
        found: Boxes of each image with a score of at least `RESAMPLED_SCORE`.
        truth: Objects of each image.
        num_classes: Number of classes.
        kind: Boxes or masks, whose overlap counts.
    """
    images = MatchedImages(found, truth, num_classes=num_classes, kind=kind)
    began = time.perf_counter()
    generator = np.random.default_rng(0)
    rows: list[dict[str, float]] = []
    spent = 0.0
    while len(rows) < RESAMPLES and spent < MOST_SECONDS:
        rows.append(images.score(generator.integers(len(found), size=len(found))))
        spent = time.perf_counter() - began
        if len(rows) == 1 and spent > MOST_SECONDS / FEWEST_RESAMPLES:
            return {}
    if len(rows) < FEWEST_RESAMPLES:
        return {}
    ends = {name: np.quantile([row[name] for row in rows], (0.025, 0.975)) for name in METRICS}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items() if low < high}
