"""Which samples a model of several labels gets wrong, for `evaluation.json`.

Shapes: N samples, K classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.label_metrics import decide
from redkiln.views.evaluation import Mistake
from worker.export.scoring.mistakes import MOST_MISTAKES
from worker.export.target import Outputs

NOTHING = "no label"


def find_wrong_labels(
    probabilities: Outputs,
    targets: NDArray[Any],
    *,
    classes: Sequence[str],
    thresholds: Sequence[float],
) -> tuple[int, list[Mistake]]:
    """Return how many samples have a wrong label, and those with the most certain one first.

    Args:
        probabilities: (N, K) of the test split.
        targets: (N, K) 1 for the labels of a sample, else 0.
        classes: (K,) names.
        thresholds: (K,) probability from which a class is a label.

    Returns:
        The number, and mistakes whose confidence is that of the most certain wrong decision.
    """
    found, is_true = decide(probabilities, thresholds), targets.astype(bool)
    certain = np.where(found, probabilities, 1 - probabilities)
    certain_wrong = np.where(found != is_true, certain, -1.0)
    wrong, worst = certain_wrong.max(axis=1), certain_wrong.argmax(axis=1)
    rows = np.argsort(-wrong, kind="stable")[: int((wrong >= 0).sum())]
    return len(rows), [
        Mistake(
            sample=int(row),
            true=_join(classes, is_true[row]),
            predicted=_join(classes, found[row]),
            confidence=round(float(wrong[row]), 6),
            true_confidence=round(1 - float(wrong[row]), 6),
            label=classes[worst[row]],
            label_probability=round(float(probabilities[row, worst[row]]), 6),
        )
        for row in rows[:MOST_MISTAKES]
    ]


def _join(classes: Sequence[str], is_label: NDArray[np.bool_]) -> str:
    return ", ".join(classes[place] for place in np.flatnonzero(is_label).tolist()) or NOTHING
