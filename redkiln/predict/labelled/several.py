"""Scores a model that finds several labels as its report does."""

from collections.abc import Sequence

import numpy as np

from redkiln.cells import label_file
from redkiln.errors import ModelError
from redkiln.predict.description import Description
from redkiln.predict.label_metrics import Answers, mean_average_precision
from redkiln.predict.model import Prediction
from redkiln.views.comparison import Interval

RESAMPLES, FEWEST_RESAMPLES = 500, 100
AT_ONCE = 50
"""Resamples in memory at once."""
MOST_WORK = 20_000_000
"""Samples times classes times resamples, which bounds the time to about a second."""


def score_labels(
    answers: Sequence[tuple[Prediction, set[str]]], known: Description
) -> tuple[float, Interval | None, float]:
    """Return mean average precision, its 95 % interval, and the share with all labels right.

    The interval is None if so many samples would take too long, or if all resamples agree.

    Args:
        answers: Predictions with the probabilities of all classes, and the true labels.
        known: Description of the model.

    Raises:
        ModelError: No sample has a label.
    """
    scores = [dict(answer.scores) for answer, _ in answers]
    probabilities = np.array([[one[name] for name in known.classes] for one in scores])
    is_true = np.array([[name in truth for name in known.classes] for _, truth in answers])
    if not is_true.any():
        raise ModelError("Mean average precision needs at least one sample with a label")
    found = Answers.of(probabilities, is_true, known.thresholds)
    precision = float(mean_average_precision(found, np.ones((1, len(answers))))[0])
    right = [set(answer.labels or ()) == truth for answer, truth in answers]
    return precision, _find_interval(found, len(answers)), sum(right) / len(right)


def read_labels(cell: str, known: Description) -> set[str]:
    """Return the labels in a cell, with the separator of the training data or `;`.

    An empty cell has no label.
    """
    separator = get_separator(known)
    labels = set(label_file.split_cell(cell, separator))
    if unknown := sorted(labels - set(known.classes)):
        others = set(label_file.split_cell(cell, label_file.SEPARATOR))
        if others <= set(known.classes):
            return others
        raise ValueError(
            f"{unknown[0]!r} is not a class of the model ({', '.join(known.classes[:10])})"
        )
    return labels


def get_separator(known: Description) -> str:
    """Return the separator of the training data, or `;`."""
    return str(known.preprocessing.get("labels_separator") or label_file.SEPARATOR)


def _find_interval(answers: Answers, num: int) -> Interval | None:
    resamples = min(RESAMPLES, MOST_WORK // answers.is_true.size)
    if resamples < FEWEST_RESAMPLES:
        return None
    generator, equal = np.random.default_rng(0), np.full(num, 1 / num)
    parts = [
        mean_average_precision(answers, generator.multinomial(num, equal, AT_ONCE).astype(float))
        for _ in range(0, resamples, AT_ONCE)
    ]
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    if len(values) < FEWEST_RESAMPLES:
        return None
    low, high = np.quantile(values, (0.025, 0.975))
    return (float(low), float(high)) if low < high else None
