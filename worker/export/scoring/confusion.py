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


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the share of samples whose highest output is their label."""
    return float((logits.argmax(axis=1) == labels).mean())


def cross_entropy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the mean negative log-likelihood of the labels."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    return float((log_sums - shifted[np.arange(len(labels)), labels]).mean())


def macro_f1(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the mean F1 of the classes that occur or were predicted."""
    predicted, num_classes = logits.argmax(axis=1), logits.shape[1]
    right = np.bincount(labels[predicted == labels], minlength=num_classes)
    both = np.bincount(labels, minlength=num_classes)
    both += np.bincount(predicted, minlength=num_classes)
    present = both > 0
    return float((2 * right[present] / both[present]).mean())
