import json

import numpy as np
import pytest
from sklearn.metrics import f1_score

from redkiln.cli.view.comparison import fold_rows
from redkiln.views.comparison import BaselineScore, Comparison, CrossValidation
from worker.export.baselines.compare import Rival, compare_folds
from worker.export.card.comparison_section import render_folds
from worker.export.scoring.classification import Classification
from worker.export.scoring.threshold import choose_threshold
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.tasks.export import export_job
from worker.tasks.tabular.folds import score_at_thresholds, take_fold
from worker.tasks.train import run_job
from worker.trainer.tables.table import load_table

TASKS = ["tabular-classification", "tabular-regression"]


@pytest.mark.parametrize("task", TASKS)
def test_folds_hold_each_training_row_once_and_no_test_row(write_table, task):
    table = load_table(write_table(task=task))
    held = []
    for fold in range(4):
        taken = take_fold(table, fold, folds=4)
        splits = taken.split(validation_fraction=0.1)
        assert sum(map(len, splits.values())) == table.index.num_train
        assert abs(len(splits["test"]) - table.index.num_train / 4) <= 2
        assert len(splits["validation"]) == pytest.approx(15, abs=2)
        held.append(taken.targets[splits["test"]])
        train = taken.ranks[: taken.index.num_train]
        if task == TASKS[1]:
            assert sorted(train) == list(range(len(train)))
    together = np.sort(np.concatenate(held))
    np.testing.assert_array_equal(together, np.sort(table.targets[: table.index.num_train]))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", ["gradient-boosting", "linear"])
def test_each_fold_is_scored_after_the_training(make_table_job, events, rehearsed, task, model):
    job_dir = make_table_job(task=task, model={"name": model}, training={"folds": 3})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    found = trained.cross_validation
    name = "rmse" if task == TASKS[1] else "accuracy"
    assert len(found.folds) == 3
    assert len({json.dumps(fold) for fold in found.folds}) == 3
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    assert f"fold 3 of 3: {name} {found.folds[2][name]:.4g}" in texts
    activities = [event["data"].get("activity") for event in events(job_dir, "progress")]
    assert activities[-4:] == [*(f"training fold {number} of 3" for number in (1, 2, 3)), None]
    # The curves of the job are those of the exported model only.
    points = [event["data"]["points"] for event in events(job_dir, "metrics")]
    steps = [step for some in points for step, _ in some.get("train/loss", [])]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("task", TASKS)
def test_models_of_the_folds_are_compared_with_baselines_on_all_training_rows(
    make_table_job, rehearsed, task
):
    job_dir = make_table_job(task=task, model={"name": "linear"}, training={"folds": 3})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    cross_validation = trained.cross_validation
    found = cross_validation.comparison
    scores = [one.metrics for one in found.baselines]
    metric = "rmse" if task == TASKS[1] else "accuracy"
    assert found.metric == metric
    assert [b.name for b in found.baselines][1:] == ["linear model", "gradient-boosted trees"]
    assert all(metric in one for one in scores)
    assert found.num_test == trained.counts["train"] + trained.counts["validation"]
    assert found.is_paired
    own = [fold[metric] for fold in cross_validation.folds]
    assert min(own) <= found.value <= max(own)
    # A baseline whose rows were mixed up would be no better than the constant answer.
    assert (scores[1][metric] < scores[0][metric]) == (task == TASKS[1])


def test_a_baseline_that_one_fold_lacks_is_not_scored_by_folds():
    labels = np.array([0, 1])
    outputs = np.eye(2, dtype=np.float32)
    constant = Rival(BaselineScore(name="majority class"), np.zeros((2, 2), np.float32))
    linear = Rival(BaselineScore(name="linear model"), outputs)
    skipped = Rival(BaselineScore(name="linear model", note="not trained: too wide"))
    found = compare_folds(
        Classification(["no", "yes"]),
        held_out=(np.concatenate([outputs, outputs]), np.concatenate([labels, labels])),
        folds=[[constant, linear], [constant, skipped]],
        metric="accuracy",
    )
    assert (found.value, found.best) == (1.0, "majority class")
    assert found.baselines[1] == BaselineScore(name="linear model", note="not trained: too wide")


@pytest.mark.parametrize("model", ["gradient-boosting", "linear"])
def test_the_threshold_is_chosen_on_the_rows_that_all_folds_held_out(
    make_table_job, rehearsed, events, write_table, model
):
    targets = np.zeros(640, np.int32)
    targets[::16] = 1
    noise = np.random.default_rng(0).normal(size=640)
    path = write_table(columns={"x": noise + 1.5 * targets}, targets=targets, num_test=40,
                       task=TASKS[0])  # fmt: skip
    job_dir = make_table_job(path=path, model={"name": model}, training={"folds": 3})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    assert any(text.startswith("fold 3 of 3: macro_f1 ") for text in texts)
    assert "\nTest macro F1 **" in (job_dir.out_dir / "report.md").read_text()
    result = events(job_dir, "result")[-1]["data"]
    choice, threshold = result["cross_validation"]["threshold"], result["threshold"]
    assert choice["num_of_class"] == targets[:600].sum()
    assert (threshold["chosen_on"], threshold["class_name"]) == ("folds", choice["class_name"])
    assert threshold["probability"] == choice["probability"] < 0.5
    assert threshold["validation_f1"] == choice["f1"] > 0
    folds = result["cross_validation"]["folds"]
    gains = [fold["macro_f1_at_threshold"] - fold["macro_f1"] for fold in folds]
    assert np.mean(gains) > 0.05
    assert "| macro_f1_at_threshold |" in (job_dir.out_dir / "report.md").read_text()


def test_each_fold_is_scored_at_the_threshold_of_the_other_folds():
    rng = np.random.default_rng(0)
    held_out = []
    for _ in range(3):
        labels = (rng.random(400) < 0.1).astype(np.int64)
        margin = rng.normal(size=400) + 2 * labels - 3
        held_out.append((np.stack([np.zeros(400), margin], axis=1).astype(np.float32), labels))
    scoring = Classification(["no", "yes"])
    found = score_at_thresholds(scoring, held_out)
    for fold, score in enumerate(found):
        others = [one for place, one in enumerate(held_out) if place != fold]
        logits, labels = (np.concatenate(part) for part in zip(*others, strict=True))
        choice = choose_threshold(scoring.classes, (logits, labels))
        own, true = held_out[fold]
        answers = 1 / (1 + np.exp(-own[:, 1])) >= choice.probability
        assert score == pytest.approx(f1_score(true, answers, average="macro"))


def test_a_fold_whose_other_folds_lack_a_class_is_scored_at_no_threshold():
    logits, labels = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
    held_out = [(logits, labels), (logits, np.array([1, 0, 0, 0]))]
    found = score_at_thresholds(Classification(["no", "yes"]), held_out)
    assert found[0] is not None
    assert found[1] is None


def test_values_have_no_threshold(make_table_job, rehearsed):
    job_dir = make_table_job(task=TASKS[1], model={"name": "linear"}, training={"folds": 2})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert trained.cross_validation.threshold is None


def test_finishing_leaves_the_folds_out(make_table_job, events):
    spec = {"model": "gradient-boosting", "training": {"folds": 2}}
    job_dir = make_table_job(**spec)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    newest = events(job_dir, "checkpoint")[-1]["data"]["file"]
    finishing = make_table_job(order={"resume": newest, "is_finishing": True}, **spec)
    assert run_job(finishing, StopSignal()) == EXIT_DONE
    trained = Trained.model_validate_json(finishing.trained_path.read_bytes())
    assert trained.cross_validation is None


def test_folds_are_shown_with_their_mean_and_deviation():
    found = CrossValidation(folds=[{"accuracy": 0.8, "auc": 0.9}, {"accuracy": 0.9}])
    assert fold_rows(found) == [
        ("fold 1", "accuracy 0.8"),
        ("fold 2", "accuracy 0.9"),
        ("folds", "accuracy 0.85 ± 0.071"),
    ]
    large = CrossValidation(folds=[{"rmse": 1092.0, "mae": 12300.0}, {"rmse": 1349.0, "mae": 8e-5}])
    assert fold_rows(large)[-1] == ("folds", "rmse 1220 ± 180, mae 6150 ± 8700")
    prices = CrossValidation(folds=[{"rmse": 31_118.8}, {"rmse": 29_649.0}])
    assert fold_rows(prices)[0] == ("fold 1", "rmse 31,119")
    assert fold_rows(prices)[-1] == ("folds", "rmse 30,380 ± 1000")
    both = CrossValidation(folds=[{"accuracy": 0.9, "macro_f1": 0.5}] * 2)
    assert fold_rows(both, first="test/macro_f1")[0] == ("fold 1", "macro_f1 0.5, accuracy 0.9")
    assert "| fold | macro_f1 | accuracy |" in render_folds(both, first="test/macro_f1")
    assert "| 2 | 0.9000 |\n| mean ± standard deviation | 0.8500 ± 0.0707 |" in render_folds(found)


BETTER = (
    "The model is better than the best baseline, linear model, on the held-out rows of all folds."
)
UNSURE = (
    "The held-out rows of all folds do not show whether the model or the best baseline, linear "
    "model, is better (their answers differ for 9 of 90)."
)


@pytest.mark.parametrize(("verdict", "words"), [("better", BETTER), ("equal", UNSURE)])
def test_folds_are_shown_next_to_their_baselines(verdict, words):
    comparison = Comparison(
        metric="accuracy",
        value=0.85,
        interval=(0.8, 0.9),
        baselines=[BaselineScore(name="linear model", metrics={"accuracy": 0.75})],
        best="linear model",
        verdict=verdict,
        beats_constant=True,
        num_different=9,
        num_test=90,
    )
    found = CrossValidation(folds=[{"accuracy": 0.8}, {"accuracy": 0.9}], comparison=comparison)
    report = render_folds(found)
    assert f"\n\n{words} For each fold, the baselines" in report
    assert "| models of the folds | 0.8500 | 95 % interval 0.8000 to 0.9000 |" in report
    assert "| linear model | 0.7500 |" in report
    label, said = fold_rows(found)[-1]
    assert label == "folds, baselines"
    assert said.startswith("linear model 75.0 % (accuracy); the ")
