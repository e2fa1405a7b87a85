import numpy as np
import pytest

from worker.export.baselines import learners
from worker.export.baselines.baseline import Skipped
from worker.export.baselines.learners import fit_linear, fit_trees, most_rows

GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.normal(size=(400, 3)).astype(np.float32)
LABELS = (FEATURES[:, 0] > 0) * 2
"""Labels 0 and 2 of three classes."""
VALUES = 3 * FEATURES[:, 1] + 10
TEST = [FEATURES[300:350], FEATURES[350:]]


def trees(features, targets, asked, *, seconds=60.0, classes):
    return fit_trees(
        features, targets, asked, seconds=seconds, classes=classes, categorical=[False] * 3
    )


@pytest.mark.parametrize("fit", [fit_linear, trees])
def test_a_classifier_learns_logs_of_probabilities_of_all_classes(fit):
    fitted = fit(FEATURES[:300], LABELS[:300], TEST, seconds=60.0, classes=3)
    assert fitted.outputs.shape == (100, 3)
    assert np.exp(fitted.outputs).sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (fitted.outputs.argmax(axis=1) == LABELS[300:]).mean() > 0.9
    assert (fitted.outputs[:, 1] < -10).all()
    assert fitted.note == ""


@pytest.mark.parametrize("fit", [fit_linear, trees])
def test_a_regressor_learns_values(fit):
    fitted = fit(FEATURES[:300], VALUES[:300], TEST, seconds=60.0, classes=None)
    assert np.abs(fitted.outputs - VALUES[300:]).mean() < 0.5


def test_training_stops_when_the_time_is_over_and_says_so():
    fitted = trees(FEATURES[:300], LABELS[:300], TEST, seconds=0.0, classes=3)
    assert fitted.note == "stopped after 10 of 100 rounds to save time"


def test_data_that_would_take_long_are_skipped_with_the_reason():
    with pytest.raises(Skipped, match="101 classes are too many"):
        fit_linear(FEATURES, LABELS, TEST, seconds=1.0, classes=101)
    with pytest.raises(Skipped, match="one class"):
        trees(FEATURES, np.zeros(400, int), TEST, classes=2)
    with pytest.raises(Skipped, match="100,000 features are too many"):
        most_rows(100_000)
    assert most_rows(100) == learners.MOST_CELLS // 100
