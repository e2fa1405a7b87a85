import numpy as np
import pytest
from sklearn import metrics

from worker.export.scoring.classification import Classification
from worker.export.scoring.intervals import newcombe
from worker.export.scoring.multi_label import MultiLabel
from worker.export.scoring.regression import Regression
from worker.export.target import Scoring

LABELS = np.array([0, 1, 1, 2, 0])
LOGITS = np.eye(4, dtype=np.float32)[[0, 1, 0, 2, 0]] * 3  # one of class b is taken for a
TARGETS = np.array([100.0, 140.0, 180.0, 220.0])
VALUES = np.array([110.0, 140.0, 170.0, 220.0], dtype=np.float32)


@pytest.fixture
def classes():
    return Classification(["a", "b", "c", "d"])


@pytest.fixture
def values():
    return Regression("price", mean=150.0, std=40.0)


def test_every_classifier_has_accuracy_log_loss_macro_f1_and_auc(classes):
    found = classes.score(LOGITS, LABELS)
    assert set(found) == {"accuracy", "loss", "macro_f1", "auc"}
    predicted = LOGITS.argmax(axis=1)
    assert found["accuracy"] == pytest.approx(0.8)
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(LABELS, predicted, average="macro"))


def test_the_auc_of_one_class_alone_is_left_out():
    assert "auc" not in Classification(["a", "b"]).score(LOGITS[:, :2], np.zeros(5, np.int64))


def test_the_constant_answer_is_the_majority_class_or_the_mean(classes, values):
    name, outputs = classes.answer_constantly(np.array([1, 1, 1, 0, 3]), 2)
    assert name == "majority class"
    assert outputs.argmax(axis=1).tolist() == [1, 1]
    assert np.exp(outputs[0]) == pytest.approx([0.2, 0.6, 0, 0.2], abs=1e-6)
    name, outputs = values.answer_constantly(TARGETS, 3)
    assert (name, outputs.tolist()) == ("mean", [160.0] * 3)


def test_models_are_compared_by_macro_f1_if_one_class_dominates(classes, values):
    assert classes.choose_compared(np.array([0] * 79 + [1] * 21)) == "accuracy"
    assert classes.choose_compared(np.array([0] * 80 + [1] * 20)) == "macro_f1"
    assert values.choose_compared(TARGETS) == "rmse"


def test_the_auc_of_few_samples_of_a_class_is_reported_as_uncertain():
    few = Classification(["no", "fraud"])
    labels = np.array([0] * 60 + [1] * 3)
    logits = np.stack([np.zeros(63), np.linspace(-1, 1, 63)], axis=1).astype(np.float32)
    assert few.find_intervals(logits, labels)["auc"] == newcombe(1.0, 60, 3)
    assert "few rows (3 of class fraud), so the AUC is uncertain: its interval is Newcombe's" in (
        few.describe_results(logits, labels, noun="rows")
    )
    labels[:20] = 1
    enough = few.describe_results(logits, labels, noun="rows")
    assert "uncertain" not in enough
    assert few.find_intervals(logits, labels)["auc"] != newcombe(
        few.score(logits, labels)["auc"], 40, 23
    )


def test_the_auc_of_few_samples_of_many_classes_is_reported_as_too_sure(classes):
    text = classes.describe_results(LOGITS, LABELS, noun="rows")
    assert "(2 of class a, 2 of class b, 1 of class c), so the AUC is uncertain: its int" in text
    assert "may be too narrow" in text
    perfect = classes.describe_results(np.eye(4, dtype=np.float32)[LABELS], LABELS, noun="rows")
    assert "1 of class c), so the AUC is uncertain.\n" in perfect
    alone = classes.describe_results(LOGITS[:2], np.array([0, 0]), noun="rows")
    assert "AUC" not in alone


def test_every_metric_has_an_interval_around_it(classes, values):
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=200)
    logits = (np.eye(4)[labels] + generator.normal(size=(200, 4))).astype(np.float32)
    targets = generator.normal(size=200)
    outputs = (targets + generator.normal(size=200) / 2).astype(np.float32)
    for scoring, *test in ((classes, logits, labels), (values, outputs, targets)):
        found, intervals = scoring.score(*test), scoring.find_intervals(*test)
        assert intervals.keys() == found.keys()
        assert all(intervals[n][0] < found[n] < intervals[n][1] for n in found)


def test_the_intervals_of_errors_hold_the_true_values_also_with_20_rows(values):
    generator, num_held = np.random.default_rng(0), {"rmse": 0, "mae": 0, "r2": 0}
    true = {"rmse": 2**0.5, "mae": 1.0, "r2": 0.5}  # of errors with Laplace's distribution
    for _ in range(100):
        outputs = (2**0.5 * generator.normal(size=20)).astype(np.float32)
        found = values.find_intervals(outputs, outputs + generator.laplace(size=20))
        for name, (low, high) in found.items():
            num_held[name] += low <= true[name] <= high
    assert min(num_held.values()) >= 90


def test_the_interval_of_many_errors_agrees_with_the_standard_error(values):
    errors = np.random.default_rng(0).normal(size=900)
    low, high = values.find_intervals(np.zeros(900, np.float32), errors)["rmse"]
    rmse = values.score(np.zeros(900, np.float32), errors)["rmse"]
    assert low == pytest.approx(rmse * (1 - 1.96 / 1800**0.5), abs=0.01)
    assert high == pytest.approx(rmse * (1 + 1.96 / 1800**0.5), abs=0.01)


@pytest.mark.parametrize("num", [1, 2, 5, 50])
def test_a_perfect_model_and_equal_targets_have_no_interval(values, num):
    targets = np.arange(num, dtype=np.float64)
    assert values.find_intervals(targets.astype(np.float32), targets) == {}
    equal = values.find_intervals(targets.astype(np.float32), np.full(num, 0.1))
    assert "r2" not in equal
    assert all(np.isfinite(interval).all() for interval in equal.values())


def test_the_report_says_that_few_errors_may_hide_large_ones(values):
    text = values.describe_results(VALUES, TARGETS, noun="rows")
    assert text.startswith("The test split has only 4 rows. If a few rows have much larger errors")
    many = values.describe_results(np.tile(VALUES, 25), np.tile(TARGETS, 25), noun="rows")
    assert "only" not in many


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
    text = classes.describe_results(LOGITS, LABELS, noun="rows")
    assert "| class | test rows | precision | recall | F1 |" in text
    assert "| a | 2 | 66.7% | 100.0% | 80.0% |" in text
    assert "| d | 0 | - | - | - |" in text
    assert "Most frequent mistakes: b taken for a (1).\n\nExpected calibration error" in text
    right = classes.describe_results(np.eye(4, dtype=np.float32)[LABELS], LABELS, noun="rows")
    assert "mistakes" not in right
    scores = {"test/accuracy": 0.8, "test/macro_f1": 0.7104}
    headline = classes.describe_headline(scores, compared="test/accuracy")
    assert headline == "Test accuracy **80.00%**"
    headline = classes.describe_headline(scores, compared="test/macro_f1")
    assert headline == "Test macro F1 **0.710**"
    assert classes.describe() == {"classes": ["a", "b", "c", "d"]}


def test_the_card_lists_the_sizes_of_errors(values):
    text = values.describe_results(VALUES, TARGETS, noun="rows")
    assert "| 50% of the test rows are within | 5 |" in text
    assert "| largest | 10 |" in text
    assert "![predictions](predictions.png)" in text
    assert "mean 150, standard deviation 40" in values.describe_output()
    scores = {"test/rmse": 7.0711, "test/mae": 5.0, "test/r2": 0.975}
    headline = values.describe_headline(scores, compared="test/rmse")
    assert headline == "Test root mean square error **7.071** (mean absolute error 5, R² 0.975)"
    scores = {"test/rmse": 25_911.5, "test/mae": 16_644.8, "test/r2": 0.969}
    headline = values.describe_headline(scores, compared="test/rmse")
    assert "**25,912** (mean absolute error 16,645, R² 0.969)" in headline


def test_pictures_are_drawn(classes, values, tmp_path, blank_figures):
    both: list[tuple[Scoring, np.ndarray, np.ndarray]] = [
        (classes, LOGITS, LABELS),
        (values, VALUES, TARGETS),
    ]
    for scoring, outputs, targets in both:
        path = tmp_path / scoring.figure
        with blank_figures.drawn():
            scoring.draw(outputs, targets, path, title="t")
        assert path.stat().st_size > 1000


def test_one_large_error_does_not_hide_that_values_are_better_than_their_mean():
    rng = np.random.default_rng(3)
    outputs = rng.normal(scale=145, size=40).astype(np.float32)
    errors = rng.normal(scale=15, size=40)
    errors[7] = 240
    targets = outputs + errors
    _, high = Regression("y", mean=0.0, std=1.0).find_intervals(outputs, targets)["rmse"]
    rmse = np.sqrt((errors**2).mean())
    assert 2 * rmse < high < 3 * rmse
    mean = np.full(40, targets.mean(), np.float32)
    scoring = Regression("y", mean=0.0, std=1.0)
    assert scoring.compare_pair("rmse", outputs, mean, targets) == "better"
    assert scoring.compare_pair("rmse", mean, outputs, targets) == "worse"
    assert scoring.compare_pair("rmse", rng.permutation(outputs), mean, targets) != "better"


@pytest.mark.parametrize(
    ("thresholds", "sentence"),
    [
        ([0.5, 0.5], "All thresholds are 0.5: no other one has a higher F1"),
        ([0.5, 0.31], "The thresholds have the highest F1"),
    ],
)
def test_a_report_calls_thresholds_the_best_only_if_they_were_chosen(thresholds, sentence):
    answers = np.array([[0.9, 0.2], [0.1, 0.8]], np.float32)
    text = MultiLabel(["a", "b"], thresholds).describe_results(
        answers, np.array([[1, 0], [0, 1]]), noun="rows"
    )
    assert sentence in text
