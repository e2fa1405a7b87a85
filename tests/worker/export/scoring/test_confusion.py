import numpy as np
import pytest

from worker.export.scoring.confusion import confusion_matrix, score_classes, worst_confusions

LABELS = np.array([0, 0, 0, 1, 1, 2])
PREDICTED = np.array([0, 0, 1, 1, 1, 1])
CLASSES = ["a", "b", "c", "never seen"]


@pytest.fixture
def matrix():
    return confusion_matrix(LABELS, PREDICTED, num_classes=4)


def test_rows_are_true_and_columns_predicted(matrix):
    assert matrix.tolist() == [[2, 1, 0, 0], [0, 2, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_classes_without_samples_have_no_score(matrix):
    a, b, c, unseen = score_classes(matrix, CLASSES)
    assert (a.num, a.precision, a.recall) == (3, 1.0, pytest.approx(2 / 3))
    assert (b.precision, b.recall, b.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert (c.precision, c.recall, c.f1) == (None, 0.0, 0.0)
    assert (unseen.num, unseen.precision, unseen.recall, unseen.f1) == (0, None, None, None)


def test_mistakes_are_listed_most_frequent_first():
    matrix = np.array([[5, 3, 0], [0, 5, 7], [0, 0, 5]])
    assert worst_confusions(matrix, CLASSES[:3], limit=5) == [("b", "c", 7), ("a", "b", 3)]
