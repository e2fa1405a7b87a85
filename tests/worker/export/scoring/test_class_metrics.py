import numpy as np
import pytest
from sklearn import metrics

from worker.export.scoring.class_metrics import METRICS, auc

GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.integers(3, size=60)
# Rounded, so that some samples have equal outputs.
LOGITS = np.round(np.eye(3)[LABELS] + GENERATOR.normal(size=(60, 3)), 1).astype(np.float32)
WEIGHTS = np.stack([np.ones(60), *GENERATOR.integers(0, 4, size=(3, 60))]).astype(float)


def reference(name, weights):
    probabilities = np.exp(LOGITS.astype(float))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    predicted = LOGITS.argmax(axis=1)
    match name:
        case "accuracy":
            return metrics.accuracy_score(LABELS, predicted, sample_weight=weights)
        case "loss":
            return metrics.log_loss(LABELS, probabilities, sample_weight=weights)
        case "macro_f1":
            return metrics.f1_score(LABELS, predicted, average="macro", sample_weight=weights)
        case "auc":
            scores = [
                metrics.roc_auc_score(c == LABELS, probabilities[:, c], sample_weight=weights)
                for c in range(3)
            ]
            return np.mean(scores)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_weighted_samples_are_those_of_scikit_learn(name):
    found = METRICS[name](LOGITS, LABELS, WEIGHTS)
    assert found == pytest.approx([reference(name, weights) for weights in WEIGHTS])


def test_the_auc_of_two_classes_is_that_of_the_second():
    labels, logits = (LABELS == 1).astype(int), LOGITS[:, :2].astype(float)
    expected = metrics.roc_auc_score(labels, logits[:, 1] - logits[:, 0])
    assert auc(logits, labels, WEIGHTS[:1])[0] == pytest.approx(expected)


def test_the_auc_is_undefined_without_two_classes():
    assert np.isnan(auc(LOGITS[:, :2], np.ones(60, int), WEIGHTS)).all()
