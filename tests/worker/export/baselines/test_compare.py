from types import SimpleNamespace

import numpy as np
import pytest

from redkiln.predict.compare import wilson
from redkiln.views.comparison import IMAGE_BASELINES, BaselineScore
from worker.export.baselines.baseline import Baseline, Fitted, Skipped, choose_rows
from worker.export.baselines.compare import (
    compare,
    find_budget,
    find_standing,
    score_baselines,
)
from worker.export.scoring.classification import Classification

CONSTANT = ("majority class", 0.5)


def baselines(*pairs):
    return [BaselineScore(name=name, metrics={"test/a": value}) for name, value in pairs]


@pytest.mark.parametrize(
    ("tree", "interval", "is_error", "verdict", "beats_constant"),
    [
        (0.7, (0.75, 0.85), False, "better", True),
        (0.8, (0.75, 0.85), False, "equal", True),
        (0.9, (0.75, 0.85), False, "worse", True),
        (0.4, (0.45, 0.85), False, "equal", False),
        (0.9, (0.75, 0.85), True, "worse", False),
        (0.4, (0.35, 0.45), True, "equal", True),
        (0.4, (0.2, 0.3), True, "better", True),
    ],
)
def test_without_a_paired_test_the_verdict_follows_from_the_models_interval(
    tree, interval, is_error, verdict, beats_constant
):
    found = compare(
        baselines(CONSTANT, ("trees", tree)),
        metric="test/a",
        value=sum(interval) / 2,
        interval=interval,
        is_error=is_error,
    )
    assert (found.verdict, found.beats_constant) == (verdict, beats_constant)
    assert found.best == ("trees" if (tree > 0.5) != is_error else "majority class")


@pytest.mark.parametrize("name", ["linear model on TF-IDF", IMAGE_BASELINES[0]])
@pytest.mark.parametrize(
    ("num_lost", "num_test", "verdict"),
    [(0, 26, "equal"), (1, 26, "equal"), (4, 179, "equal"), (5, 9, "equal"), (6, 26, "worse"),
     (6, 179, "worse")],
)  # fmt: skip
def test_a_baseline_is_better_only_if_mcnemars_test_is_sure(name, num_lost, num_test, verdict):
    labels = np.tile([0, 0, 1], num_test)[:num_test]
    right = np.eye(2, dtype=np.float32)[labels]
    outputs = right.copy()
    outputs[:num_lost] = 1 - outputs[:num_lost]
    data = SimpleNamespace(
        scoring=Classification(["no", "yes"]),
        targets=np.concatenate([[0, 0, 1], labels]),
        rows={"train": np.arange(3), "test": 3 + np.arange(num_test)},
        baselines=[Baseline(name, lambda *_: Fitted(right * 5))],
    )
    scores = data.scoring.score(outputs, labels)
    metrics = {**scores, "accuracy_onnx": scores["accuracy"]}
    found = find_standing(
        data, outputs=outputs, of_file=outputs, metrics=metrics, training_seconds=1
    ).comparison
    assert (found.best, found.verdict, found.is_paired) == (name, verdict, True)
    assert (found.num_different, found.num_test) == (num_lost, num_test)


def test_a_baseline_without_scores_is_never_the_best():
    skipped = BaselineScore(name="linear model", note="not trained: too wide")
    found = compare(
        [*baselines(CONSTANT), skipped],
        metric="test/a",
        value=0.9,
        interval=(0.8, 1.0),
        is_error=False,
    )
    assert found.best == "majority class"


def target(*offered):
    return SimpleNamespace(
        scoring=Classification(["no", "yes"]),
        targets=np.array([0, 0, 1, 0, 0, 1, 1]),
        rows={"train": np.arange(4), "validation": np.arange(0), "test": np.arange(4, 7)},
        baselines=offered,
    )


def perfect(train, test, seconds):
    assert train.tolist() == [0, 1, 2, 3]
    assert seconds > 0
    return Fitted(np.eye(2)[[0, 1, 1]] * 5, note="trained on 2 samples")


def too_wide(train, test, seconds):
    raise Skipped("9 features are too many")


def test_baselines_are_scored_on_the_test_split_after_the_constant_answer():
    offered = Baseline("oracle", perfect), Baseline("linear model", too_wide)
    rivals = score_baselines(target(*offered), seconds=10)
    constant, oracle, linear = (rival.score for rival in rivals)
    assert constant.name == "majority class"
    assert constant.metrics["test/accuracy"] == pytest.approx(1 / 3)
    assert oracle.metrics["test/accuracy"] == 1.0
    assert oracle.note == "trained on 2 samples"
    assert linear == BaselineScore(name="linear model", note="not trained: 9 features are too many")


def broken(train, test, seconds):
    raise ZeroDivisionError("a fault\nof a library")


def infinite(train, test, seconds):
    return Fitted(np.full((3, 2), np.inf))


@pytest.mark.parametrize(
    ("fit", "words"),
    [(broken, "ZeroDivisionError: a fault of a library"), (infinite, "answers are not finite")],
)
def test_a_baseline_that_fails_costs_no_model_and_says_why(fit, words, capsys):
    offered = Baseline("linear model", fit), Baseline("oracle", perfect)
    _, failed, oracle = (one.score for one in score_baselines(target(*offered), seconds=10))
    assert (failed.metrics, oracle.metrics["test/accuracy"]) == ({}, 1.0)
    assert failed.note.startswith("failed, see trainer.log: ")
    assert words in failed.note
    assert "Traceback" in capsys.readouterr().err


def test_a_model_of_one_class_is_recognised_as_useless():
    outputs = np.tile(np.float32([1, 0]), (3, 1))
    data = target()
    standing = find_standing(
        data,
        outputs=outputs,
        of_file=outputs,
        metrics=score_both(data, outputs, outputs),
        training_seconds=1,
    )
    assert standing.comparison.metric == "test/accuracy"
    assert not standing.comparison.beats_constant
    assert set(standing.intervals) >= {"test/accuracy", "test/macro_f1", "test/loss"}


def score_both(data, outputs, of_file):
    scores = data.scoring.score
    onnx = scores(of_file, data.targets[4:])["accuracy"]
    return {**scores(outputs, data.targets[4:]), "accuracy_onnx": onnx}


def test_the_headline_of_the_file_has_the_interval_of_the_file():
    data = target()
    right = np.eye(2, dtype=np.float32)[data.targets[4:]]
    wrong = right[:, ::-1]
    ends = {}
    for name, of_file in (("same", right), ("other", wrong)):
        standing = find_standing(
            data,
            outputs=right,
            of_file=of_file,
            metrics=score_both(data, right, of_file),
            training_seconds=1,
        )
        intervals = standing.intervals
        ends[name] = (intervals["test/accuracy"], intervals["test/accuracy_onnx"])
    assert ends["same"] == (ends["other"][0], ends["same"][0])
    assert ends["other"][1] == wilson(0.0, len(right))


@pytest.mark.parametrize(("training", "budget"), [(1, 2), (100, 10), (10_000, 30)])
def test_baselines_take_a_tenth_of_the_training_within_limits(training, budget):
    assert find_budget(training) == budget


def test_the_same_rows_are_chosen_each_time():
    rows = np.arange(100, 200)
    assert choose_rows(rows, most=100) == (pytest.approx(rows), "")
    some, note = choose_rows(rows, most=10)
    assert note == "trained on 10 of 100 samples"
    assert (np.diff(some) > 0).all()
    assert some.tolist() == choose_rows(rows, most=10)[0].tolist()
