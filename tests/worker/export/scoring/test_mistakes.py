import numpy as np
import pytest

from worker.export.scoring.mistakes import MOST_MISTAKES, PER_CELL, find_mistakes


def test_the_most_confident_mistake_is_first():
    logits = np.array([[5, 0, 0], [0, 1, 0], [0, 0, 9], [3, 0, 0]], dtype=np.float32)
    first, second = find_mistakes(logits, np.array([0, 0, 1, 0]))
    assert (first.sample, first.true, first.predicted) == (2, 1, 2)
    assert (second.sample, second.true, second.predicted) == (1, 0, 1)
    assert first.confidence > second.confidence > second.true_confidence
    assert second.confidence == pytest.approx(np.e / (np.e + 2), abs=1e-6)


def test_a_right_model_makes_no_mistakes():
    assert find_mistakes(np.eye(3, dtype=np.float32), np.arange(3)) == []


def test_huge_logits_have_finite_probabilities():
    (mistake,) = find_mistakes(np.array([[1e30, -1e30]], dtype=np.float32), np.array([1]))
    assert (mistake.confidence, mistake.true_confidence) == (1.0, 0.0)


def test_of_very_many_mistakes_some_of_each_kind_are_listed():
    num = 3 * MOST_MISTAKES
    logits = np.tile(np.array([[9, 0, 0]], dtype=np.float32), (num, 1))
    logits[-1] = [0.2, 0, 0]  # the least confident one is the only one of its kind
    targets = np.full(num, 1)
    targets[-1] = 2
    found = find_mistakes(logits, targets)
    assert len(found) == MOST_MISTAKES
    assert (found[-1].sample, found[-1].true) == (num - 1, 2)
    assert PER_CELL < sum(mistake.true == 1 for mistake in found) < MOST_MISTAKES
    assert [m.confidence for m in found] == sorted((m.confidence for m in found), reverse=True)
