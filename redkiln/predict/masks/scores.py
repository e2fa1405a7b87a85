"""Scores masks: IoU and Dice of each class, from the counts of pixels by true and found class.

Shapes: N images, S side in pixels, K classes.

Source: IoU is |A and B| / |A or B| of the pixels of a class in all images together, as in PASCAL
VOC; Dice is 2 |A and B| / (|A| + |B|).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.views.comparison import Interval

Counts = NDArray[np.int64]
"""(K, K), pixels by true class and found class."""
METRICS = ("miou", "dice", "pixel_accuracy")
RESAMPLES = 300
MOST_WORK = 2_000_000_000
"""Most resamples times images times pairs of classes; larger sets get no intervals."""


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class; None where it neither occurs nor is found.

    Attributes:
        num: Pixels of the class.
        precision: Share of the pixels found as the class that are right.
        recall: Share of its pixels that are found.
    """

    name: str
    num: int
    iou: float | None
    dice: float | None
    precision: float | None
    recall: float | None


def count_pixels(found: NDArray[np.uint8], truth: NDArray[np.uint8], num_classes: int) -> Counts:
    """Count the pixels of masks of the same shape; ignored ones do not count."""
    is_known = truth != IGNORED
    pairs = truth[is_known].astype(np.int64) * num_classes + found[is_known]
    counts: Counts = np.bincount(pairs, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def score_masks(
    found: NDArray[np.uint8], truth: NDArray[np.uint8], num_classes: int
) -> dict[str, float]:
    """Return `miou`, `dice` and `pixel_accuracy` of masks (N, S, S)."""
    counts = np.zeros((num_classes, num_classes), dtype=np.int64)
    for one, other in zip(found, truth, strict=True):
        counts += count_pixels(one, other, num_classes)
    return score_counts(counts)


def score_counts(counts: Counts) -> dict[str, float]:
    """Return `miou`, `dice` and `pixel_accuracy`, each from 0 to 1.

    The first two are means over the classes that occur; all are 0 if no pixel counts.
    """
    right, true, called = counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0)
    occurs = true > 0
    if not occurs.any():
        return dict.fromkeys(METRICS, 0.0)
    iou = right[occurs] / (true + called - right)[occurs]
    dice = 2 * right[occurs] / (true + called)[occurs]
    accuracy = right.sum() / true.sum()
    return {
        "miou": float(iou.mean()),
        "dice": float(dice.mean()),
        "pixel_accuracy": float(accuracy),
    }


def find_mask_intervals(counts: NDArray[np.int64]) -> dict[str, Interval]:
    """Return bootstrap 95 % intervals over images; none if that would take long.

    Args:
        counts: (N, K, K), pixels of each image by true class and found class.
    """
    num, num_classes = counts.shape[:2]
    if RESAMPLES * num * num_classes**2 > MOST_WORK or num < 2:
        return {}
    generator = np.random.default_rng(0)
    weights = generator.multinomial(num, np.full(num, 1 / num), size=RESAMPLES)
    flat = counts.reshape(num, -1)
    rows = [score_counts((one @ flat).reshape(num_classes, -1)) for one in weights]
    ends = {name: np.quantile([row[name] for row in rows], (0.025, 0.975)) for name in METRICS}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items() if low < high}


def score_classes(counts: Counts, classes: Sequence[str]) -> list[ClassScore]:
    """Return the scores of each class."""
    found = []
    for label, name in enumerate(classes):
        right, true, called = (
            int(counts[label, label]),
            int(counts[label].sum()),
            int(counts[:, label].sum()),
        )
        either = true + called - right
        found.append(
            ClassScore(
                name,
                true,
                iou=right / either if either else None,
                dice=2 * right / (true + called) if either else None,
                precision=right / called if called else None,
                recall=right / true if true else None,
            )
        )
    return found
