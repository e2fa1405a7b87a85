import numpy as np
import pytest
from sklearn import metrics

from worker.export.scoring.classification import Classification
from worker.export.scoring.regression import Regression
from worker.export.target import Scoring

LABELS = np.array([0, 1, 1, 2, 0])
LOGITS = np.eye(4, dtype=np.float32)[[0, 1, 0, 2, 0]] * 3  # one of class b is taken for a
TARGETS = np.array([100.0, 140.0, 180.0, 220.0])
VALUES = np.array([110.0, 140.0, 170.0, 220.0], dtype=np.float32)


@pytest.fixture
def classes():
    return Classification(["a", "b", "c", "d"], metrics=("accuracy", "loss", "macro_f1"))


@pytest.fixture
def values():
    return Regression("price", mean=150.0, std=40.0)


def test_a_classifier_is_scored_by_the_selected_metrics(classes):
    found = classes.score(LOGITS, LABELS)
    assert set(found) == {"accuracy", "loss", "macro_f1"}
    predicted = LOGITS.argmax(axis=1)
    assert found["accuracy"] == pytest.approx(0.8)
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(LABELS, predicted, average="macro"))
    assert set(Classification(["a"]).score(LOGITS, LABELS)) == {"accuracy", "loss"}


def test_a_regressor_is_scored_in_its_targets_unit(values):
    found = values.score(VALUES, TARGETS)
    assert found["rmse"] == pytest.approx(np.sqrt(50))
    assert found["mae"] == pytest.approx(5)
    assert found["r2"] == pytest.approx(metrics.r2_score(TARGETS, VALUES))
    assert values.score(np.full(3, 0.2, np.float32), np.full(3, 0.1))["r2"] == 0.0


def test_the_gate_measures_lost_accuracy_and_grown_errors(classes, values):
    assert classes.find_drop(0.9, 0.8) == pytest.approx(0.1)
    assert classes.explain_drop(0.1) == "the metric is 0.1000 lower"
    assert values.find_drop(10.0, 10.5) == pytest.approx(0.05)
    assert values.find_drop(10.0, 9.0) < 0
    assert values.explain_drop(0.05) == "the metric (rmse) is 5.00% worse"
    # A model without an error may round.
    assert values.find_drop(0.0, 1e-9) < 1e-3
    assert not values.find_drop(1.0, float("nan")) <= 1


def test_the_card_lists_class_scores(classes):
    text = classes.tell_results(LOGITS, LABELS, noun="rows")
    assert "| class | test rows | precision | recall | F1 |" in text
    assert "| a | 2 | 66.7% | 100.0% | 80.0% |" in text
    assert "| d | 0 | - | - | - |" in text
    assert text.endswith("Most frequent mistakes: b taken for a (1).")
    right = classes.tell_results(np.eye(4, dtype=np.float32)[LABELS], LABELS, noun="rows")
    assert "mistakes" not in right
    assert classes.tell_headline({"test/accuracy": 0.8}) == "Test accuracy **80.00%**"
    assert classes.describe() == {"classes": ["a", "b", "c", "d"]}


def test_the_card_compares_errors_with_predicting_the_mean(values):
    text = values.tell_results(VALUES, TARGETS, noun="rows")
    assert "| 50% of the test rows are within | 5 |" in text
    assert "| largest | 10 |" in text
    assert "Always predicting the training mean, 150," in text
    assert "mean square error of 45.83." in text
    assert "![predictions](predictions.png)" in text
    assert "mean 150, standard deviation 40" in values.tell_output()
    headline = values.tell_headline({"test/rmse": 7.0711, "test/mae": 5.0, "test/r2": 0.975})
    assert headline == "Test root mean square error **7.071** (mean absolute error 5, R² 0.975)"


def test_pictures_are_drawn(classes, values, tmp_path):
    both: list[tuple[Scoring, np.ndarray, np.ndarray]] = [
        (classes, LOGITS, LABELS),
        (values, VALUES, TARGETS),
    ]
    for scoring, outputs, targets in both:
        path = tmp_path / scoring.figure
        scoring.draw(outputs, targets, path, title="t")
        assert path.stat().st_size > 1000
