import numpy as np
import pytest
from sklearn.metrics import f1_score

from worker.export.scoring.threshold import choose_threshold, f1_at, score_threshold

GENERATOR = np.random.default_rng(0)


def choose(classes, *, validation, test):
    choice = choose_threshold(classes, validation)
    return score_threshold(choice, test, chosen_on="validation")


def split(num, *, share=0.05):
    labels = (GENERATOR.random(num) < share).astype(np.int64)
    margin = 2.5 * labels + GENERATOR.normal(size=num) - 3
    return np.stack([-margin / 2, margin / 2], axis=1).astype(np.float32), labels


def test_the_rarer_class_of_two_gets_the_threshold_with_the_highest_f1():
    validation, test = split(2000), split(1000)
    found = choose(["no", "yes"], validation=validation, test=test)
    assert found.class_name == "yes"
    logits, labels = validation
    probabilities = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]).astype(float))
    tried = [f1_at(t, probabilities, labels == 1) for t in np.linspace(0, 1, 501)]
    assert found.validation_f1 >= max(tried) - 1e-9
    assert found.probability < 0.5
    assert found.num_of_class == labels.sum()
    assert found.test_f1 > found.test_f1_at_half
    assert {0.5, found.probability, 0.01} < {one.probability for one in found.decisions}
    eager = [one.found + one.false_alarms for one in found.decisions]
    assert eager == sorted(eager)
    assert {one.found + one.missed for one in found.decisions} == {test[1].sum()}
    half = found.decisions[0]
    precision, recall = half.found / (half.found + half.false_alarms), half.found / test[1].sum()
    assert found.test_f1_at_half == pytest.approx(2 * precision * recall / (precision + recall))
    expected = f1_score(test[1], test[0].argmax(axis=1))
    assert found.test_f1_at_half == pytest.approx(expected)


def test_the_threshold_stays_at_a_half_if_no_other_is_better():
    logits = np.array([[3, -3], [-3, 3], [3, -3], [-3, 3]], np.float32)
    labels = np.array([0, 1, 0, 1])
    found = choose(["a", "b"], validation=(logits, labels), test=(logits, labels))
    assert (found.class_name, found.probability, found.test_f1) == ("b", 0.5, 1.0)


def test_the_first_class_is_chosen_if_it_is_rarer():
    logits, labels = split(500)
    flipped = (logits[:, ::-1], 1 - labels)
    assert choose_threshold(["x", "y"], flipped).class_name == "x"


def test_equal_probabilities_are_answered_alike():
    logits = np.zeros((6, 2), np.float32)
    labels = np.array([0, 0, 0, 0, 1, 1])
    found = choose(["a", "b"], validation=(logits, labels), test=(logits, labels))
    assert found.validation_f1 == pytest.approx(0.5)


def test_there_is_no_threshold_without_validation_samples_of_both_classes():
    logits, labels = split(20)
    one = (logits, np.zeros(len(labels), np.int64))
    assert choose_threshold(["a", "b"], one) is None
