"""A table with several labels a row, from its first row to its files."""

import json

import numpy as np
import onnxruntime
import pytest

from redkiln.predict.label_metrics import score_once
from redkiln.views.comparison import Comparison
from redkiln.views.evaluation import EvaluationFile
from tests.worker.job_dirs import load_arrays
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

CLASSES = ["large", "heavy", "rare"]
TASK = "tabular-classification"


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


def make_table(num=400, num_test=100):
    """Return columns, and labels that follow from them; `rare` is on a tenth of the rows."""
    rng = np.random.default_rng(0)
    size, weight, noise = rng.normal(size=(3, num))
    labels = np.stack([size > 0, weight + 0.2 * noise > 0.3, size + weight > 1.8], axis=1)
    labels[~labels.any(axis=1), 0] = True
    counts = labels[:-num_test].sum(axis=0)
    rarest = np.where(labels, counts, num).argmin(axis=1)
    return {"size": size, "weight": weight}, labels.astype(np.uint8), rarest


@pytest.fixture
def make_label_job(make_table_job, write_table):
    def make(**spec):
        columns, labels, rarest = make_table()
        path = write_table(
            columns=columns, targets=rarest, task=TASK, num_test=100, classes=CLASSES, labels=labels
        )
        return make_table_job(task=TASK, path=path, **spec)

    return make


def test_a_table_of_labels_becomes_a_verified_model(make_label_job, events, monkeypatch):
    training = {"epochs": 8, "validation_fraction": 0.2, "optimizer": {"name": "adamw", "lr": 0.02}}
    job_dir = make_label_job(training=training)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    check_result(events(job_dir, "result")[-1]["data"])
    check_evaluation(job_dir)
    check_file(job_dir)
    check_report(job_dir, monkeypatch)


def check_result(result):
    assert result["verified"] is True
    metrics = result["metrics"]
    names = ("map", "macro_f1", "micro_f1", "accuracy", "hamming_loss", "loss")
    assert {f"test/{name}" for name in names} <= set(metrics)
    assert metrics["test/map"] > 0.9
    low, high = result["intervals"]["test/map"]
    assert low <= metrics["test/map"] <= high
    comparison = Comparison.model_validate(result["comparison"])
    names = ["label shares", "linear models", "gradient-boosted trees"]
    assert [b.name for b in comparison.baselines] == names
    assert comparison.baselines[2].metrics["test/map"] > comparison.baselines[0].metrics["test/map"]
    assert (comparison.metric, comparison.beats_constant) == ("test/map", True)
    assert comparison.baselines[1].metrics["test/map"] > comparison.baselines[0].metrics["test/map"]


def check_evaluation(job_dir):
    content = EvaluationFile.model_validate_json((job_dir.out_dir / "evaluation.json").read_text())
    assert (content.has_labels, content.num_samples, content.confused) == (True, 100, [])
    assert [one.name for one in content.per_class] == CLASSES
    assert all(one.average_precision is not None for one in content.per_class)
    assert content.num_mistakes == len(content.mistakes) > 0
    certain = [mistake.confidence for mistake in content.mistakes]
    assert certain == sorted(certain, reverse=True)
    assert all(mistake.true != mistake.predicted for mistake in content.mistakes)
    for mistake in content.mistakes:
        is_found = mistake.label in mistake.predicted.split(", ")
        assert is_found != (mistake.label in mistake.true.split(", "))
        shown = mistake.confidence if is_found else mistake.true_confidence
        assert mistake.label_probability == pytest.approx(shown, abs=2e-6)


def check_file(job_dir):
    session = onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")
    known = session.get_modelmeta().custom_metadata_map
    assert [output.name for output in session.get_outputs()] == ["probabilities"]
    assert json.loads(known["classes"]) == CLASSES
    thresholds = json.loads(known["thresholds"])
    assert all(0.2 < value < 8 for value in json.loads(known["temperatures"]))
    saved = load_arrays(job_dir.out_dir / "parity.npz")
    (found,) = session.run(None, {"numbers": saved["numbers"]})
    np.testing.assert_allclose(found, saved["probabilities"], atol=1e-4)
    assert found.shape == saved["labels"].shape
    assert (found.sum(axis=1) > 1.2).any()
    is_test = saved["is_test"]
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    assert manifest["thresholds"] == thresholds
    scores = score_once(found[is_test], saved["labels"][is_test], thresholds)
    assert manifest["metrics"]["test/macro_f1"] == pytest.approx(scores["macro_f1"], abs=1e-3)


def check_report(job_dir, monkeypatch):
    report = (job_dir.out_dir / "report.md").read_text()
    assert "| class | test rows | threshold | precision | recall | F1 | AP |" in report
    assert all(f"\n| {name} | " in report for name in CLASSES)
    assert "confusion" not in report
    assert "labels.png" in [output.name for output in job_dir.load_outputs()]
    code = report.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(job_dir.out_dir)
    scope = {}
    exec(code, scope)
    (found,) = scope["predict"]([{"size": 3.0, "weight": 3.0}])
    assert set(found) == set(CLASSES)


def test_folds_are_scored_with_the_labels(make_label_job, events):
    job_dir = make_label_job(training={"epochs": 5, "folds": 2})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    trained = json.loads(job_dir.trained_path.read_text())
    folds = trained["cross_validation"]["folds"]
    assert [fold["map"] > 0.5 for fold in folds] == [True, True]


def test_boosted_trees_of_each_label_become_one_verified_file(make_label_job, events):
    training = {"steps": 40, "validation_fraction": 0.2, "class_weights": "balanced"}
    job_dir = make_label_job(model="gradient-boosting", training=training)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    result = events(job_dir, "result")[-1]["data"]
    assert (result["verified"], result["metrics"]["test/map"] > 0.85) == (True, True)
    check_file(job_dir)
