"""Metrics of several labels a sample, compared with scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics

from redkiln.predict.label_metrics import METRICS, Answers, score_once

THRESHOLDS = [0.3, 0.5, 0.7]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    targets = (rng.random((200, 3)) < (0.5, 0.2, 0.05)).astype(np.uint8)
    noise = rng.random((200, 3))
    # Rounded, so that many samples have equal scores.
    return np.round(0.4 * targets + 0.6 * noise, 1).astype(np.float32), targets


def test_each_metric_is_that_of_scikit_learn(samples):
    probabilities, targets = samples
    chances = probabilities.astype(float).clip(1e-7, 1 - 1e-7)
    found = probabilities >= np.array(THRESHOLDS, np.float32)
    assert score_once(probabilities, targets, THRESHOLDS) == pytest.approx(
        {
            "map": metrics.average_precision_score(targets, probabilities),
            "macro_f1": metrics.f1_score(targets, found, average="macro"),
            "micro_f1": metrics.f1_score(targets, found, average="micro"),
            "accuracy": metrics.accuracy_score(targets, found),
            "hamming_loss": metrics.hamming_loss(targets, found),
            "loss": np.mean([metrics.log_loss(targets[:, k], chances[:, k]) for k in range(3)]),
        },
        rel=1e-6,
    )  # fmt: skip


def test_a_weight_of_two_counts_a_sample_twice(samples):
    probabilities, targets = samples
    weights = np.ones((1, 200))
    weights[0, :50] = 2
    answers = Answers.of(probabilities, targets)
    weighted = {name: metric(answers, weights) for name, metric in METRICS.items()}
    repeated = score_once(
        np.concatenate([probabilities, probabilities[:50]]),
        np.concatenate([targets, targets[:50]]),
    )
    assert {name: value[0] for name, value in weighted.items()} == pytest.approx(repeated)


def test_a_class_without_samples_counts_in_no_mean(samples):
    probabilities, targets = (array.copy() for array in samples)
    targets[:, 2] = 0
    probabilities[:, 2] = 0.1
    found = score_once(probabilities, targets)
    assert found["map"] == pytest.approx(
        metrics.average_precision_score(targets[:, :2], probabilities[:, :2])
    )
    assert found["macro_f1"] == pytest.approx(
        metrics.f1_score(targets[:, :2], probabilities[:, :2] >= 0.5, average="macro")
    )
