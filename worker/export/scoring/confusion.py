"""Scores of a classifier for each class.

Shapes: N samples, C classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class: `precision` of its predictions, `recall` of its samples."""

    name: str
    num: int
    precision: float | None
    recall: float | None
    f1: float | None


def confusion_matrix(
    labels: NDArray[np.int64], predicted: NDArray[np.int64], *, num_classes: int
) -> NDArray[np.int64]:
    """Return counts (C, C) by true and predicted class."""
    pairs = labels * num_classes + predicted
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def score_classes(matrix: NDArray[np.int64], classes: list[str]) -> list[ClassScore]:
    """Return precision, recall and F1 of each class, in the order of the classes."""
    scores = []
    for label, name in enumerate(classes):
        right = int(matrix[label, label])
        num, called = int(matrix[label].sum()), int(matrix[:, label].sum())
        precision = right / called if called else None
        recall = right / num if num else None
        f1 = 2 * right / (num + called) if num + called else None
        scores.append(ClassScore(name, num, precision, recall, f1))
    return scores


def worst_confusions(
    matrix: NDArray[np.int64], classes: list[str], *, limit: int
) -> list[tuple[str, str, int]]:
    """Return the most frequent mistakes as (true, predicted, count), most frequent first."""
    mistakes = matrix.copy()
    np.fill_diagonal(mistakes, 0)
    order = np.argsort(mistakes, axis=None, kind="stable")[::-1][:limit]
    found = []
    for place in order:
        true, predicted = divmod(int(place), len(classes))
        if mistakes[true, predicted]:
            found.append((classes[true], classes[predicted], int(mistakes[true, predicted])))
    return found
