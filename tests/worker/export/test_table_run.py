"""Tabular jobs from their first row to their files."""

import csv
import json
import re

import numpy as np
import onnxruntime
import pytest
import safetensors
from PIL import Image

from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from redkiln.views.comparison import Comparison
from tests.worker.job_dirs import load_arrays
from worker.export import training_files
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

FIGURES = {"tabular-classification": "confusion.png", "tabular-regression": "predictions.png"}
NETWORK = {"training": {"epochs": 15, "optimizer": {"name": "adamw", "lr": 0.02}}}
TREES = {"model": "gradient-boosting", "training": {"steps": 60}}
LIBRARIES = {"network": "torch", "trees": "scikit-learn"}


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


@pytest.fixture(params=["network", "trees"])
def kind(request):
    return request.param


@pytest.fixture(params=list(FIGURES))
def trained(request, kind, make_table_job):
    spec = NETWORK if kind == "network" else TREES
    job_dir = make_table_job(task=request.param, **spec)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    return request.param, job_dir


def test_a_table_becomes_a_verified_model_with_all_its_files(trained, kind, events, monkeypatch):
    task, job_dir = trained
    assert export_job(job_dir) == EXIT_DONE
    is_regression = task == "tabular-regression"
    names = [output.name for output in job_dir.load_outputs()]
    assert set(names) == {
        "checkpoint.safetensors", "metrics.csv", "curves.png", "model.onnx", "parity.npz",
        FIGURES[task], "report.md", "report.html", "trainer.log", "manifest.json",
        *(() if is_regression else ("evaluation.json", "calibration.png")),
    }  # fmt: skip
    result = events(job_dir, "result")[-1]["data"]
    assert result["verified"] is True
    metrics = result["metrics"]
    expected = {"rmse", "mae", "r2"} if is_regression else {"accuracy", "macro_f1", "loss", "auc"}
    headline = "rmse" if is_regression else "accuracy"
    assert {f"test/{name}" for name in (*expected, f"{headline}_onnx")} <= set(metrics)
    assert (metrics["test/r2"] if is_regression else metrics["test/accuracy"]) > 0.75

    comparison = Comparison.model_validate(result["comparison"])
    assert {comparison.metric, "test/mae" if is_regression else "test/loss"} <= set(
        result["intervals"]
    )
    low, high = result["intervals"][f"test/{headline}_onnx"]
    assert low <= metrics[f"test/{headline}_onnx"] <= high
    low, high = result["intervals"][comparison.metric]
    assert low <= metrics[comparison.metric] == comparison.value <= high
    assert [(b.name, bool(b.metrics)) for b in comparison.baselines] == [
        ("mean" if is_regression else "majority class", True),
        ("linear model", True),
        ("gradient-boosted trees", True),
    ]
    assert comparison.beats_constant
    if is_regression:
        assert result["threshold"] is None
    else:
        assert result["threshold"]["class_name"] in ("no", "yes")
        assert result["threshold"]["test_f1_at_half"] > 0.7

    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    if is_regression:
        assert manifest["target"]["name"] == "answer"
        assert "classes" not in manifest
        assert "agreement" not in manifest["verification"]
    else:
        assert manifest["classes"] == ["no", "yes"]
    assert manifest["comparison"] == result["comparison"]
    assert manifest["verification"]["compared_with"] == LIBRARIES[kind]
    assert f"ONNX Runtime matches {LIBRARIES[kind]}" in (job_dir.out_dir / "report.md").read_text()
    assert [part["name"] for part in manifest["preprocessing"]["inputs"]] == ["numbers", "codes"]

    session = onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")
    parity = load_arrays(job_dir.out_dir / "parity.npz")
    output = "value" if is_regression else "logits"
    targets = "targets" if is_regression else "labels"
    assert set(parity) == {"numbers", "codes", output, targets, "is_test"}
    assert np.isnan(parity["numbers"]).any()
    assert (parity["codes"] == -1).any()
    inputs = {name: parity[name][:7] for name in ("numbers", "codes")}
    (outputs,) = session.run([output], inputs)
    np.testing.assert_allclose(outputs, parity[output][:7], rtol=1e-4, atol=1e-3)

    verdict = verify(job_dir.out_dir / "model.onnx", threads=1)
    assert (verdict.framework, verdict.misses) == (LIBRARIES[kind], [])

    with Image.open(job_dir.out_dir / FIGURES[task]) as image:
        assert min(image.size) > 300
    _run_the_reports_code(job_dir, parity, monkeypatch, is_regression=is_regression)


@pytest.mark.parametrize(
    ("kind", "trained"),
    [("network", "tabular-classification"), ("trees", "tabular-regression")],
    indirect=True,
)
def test_files_that_read_columns_pass_the_same_gates(trained, tmp_path, monkeypatch):
    task, job_dir = trained
    left = json.loads(job_dir.trained_path.read_text())
    left["spec"]["model"]["interface"] = "embedded"
    job_dir.trained_path.write_text(json.dumps(left))
    assert export_job(job_dir) == EXIT_DONE
    path = job_dir.out_dir / "model.onnx"
    verdict = verify(path, threads=1)
    assert verdict.verified, verdict.misses
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["verified"]
    assert (load_arrays(job_dir.out_dir / "parity.npz")["codes"] == -1).any()

    columns = {
        "size": np.array([2.5, np.nan, -7.0], np.float32),
        "weight": np.array([1.0, 2.0, np.nan], np.float32),
        "colour": np.array(["red", "unknown", ""], dtype=object),
    }
    session = onnxruntime.InferenceSession(path)
    assert [value.name for value in session.get_inputs()] == list(columns)
    output = "probabilities" if task == "tabular-classification" else "value"
    (found,) = session.run([output], columns)
    table = tmp_path / "rows.csv"
    table.write_text("size,weight,colour\n2.5,1,red\n,2,unknown\n-7,,\n")
    answers = [answer.answer for answer in Model(path).predict([table])]
    if output == "value":
        np.testing.assert_allclose(answers, found, rtol=1e-6)
    else:
        assert answers == [manifest["classes"][place] for place in found.argmax(axis=1)]

    code = re.search(r"```python\n(.*?)```", (job_dir.out_dir / "report.md").read_text(), re.DOTALL)
    monkeypatch.chdir(job_dir.out_dir)
    scope = {}
    exec(code.group(1), scope)
    rows = [{"size": 2.5, "weight": 1.0, "colour": "red"}, {"weight": 2.0, "colour": "unknown"}]
    np.testing.assert_allclose(scope["predict"](rows), found[:2], rtol=1e-6)


@pytest.mark.parametrize("kind", ["network"], indirect=True)
@pytest.mark.parametrize("trained", ["tabular-regression"], indirect=True)
def test_a_reading_too_large_for_a_checkpoint_is_omitted_with_a_warning(
    trained, events, monkeypatch
):
    monkeypatch.setattr(training_files, "MOST_METADATA_BYTES", 100)
    _, job_dir = trained
    assert export_job(job_dir) == EXIT_DONE
    with safetensors.safe_open(job_dir.out_dir / "checkpoint.safetensors", framework="np") as file:
        assert {"task", "model", "preprocessing"} <= set(file.metadata())
        assert "reading" not in file.metadata()
    assert "reading_too_large" in [event["data"]["code"] for event in events(job_dir, "warning")]


def _run_the_reports_code(job_dir, parity, monkeypatch, *, is_regression):
    report = (job_dir.out_dir / "report.md").read_text()
    assert "**Verified**" in report
    assert ("## Decision threshold" in report) != is_regression
    assert re.search(r"^\| gradient-boosted trees \| \d+\.\d{4} \|", report, re.M)
    code = re.search(r"```python\n(.*?)```", report, re.DOTALL).group(1)
    monkeypatch.chdir(job_dir.out_dir)
    scope = {}
    exec(code, scope)
    colours = ["red", "green", "blue", None]  # the last is place -1
    rows = [
        {"size": size, "weight": None if np.isnan(weight) else weight, "colour": colours[code]}
        for (size, weight), (code,) in zip(parity["numbers"], parity["codes"], strict=True)
    ]
    found = scope["predict"](rows)
    if is_regression:
        np.testing.assert_allclose(found, parity["value"], rtol=1e-4, atol=1e-2)
    else:
        odds = np.exp(parity["logits"])
        expected = odds / odds.sum(axis=1, keepdims=True)
        chances = [[row["no"], row["yes"]] for row in found]
        np.testing.assert_allclose(chances, expected, rtol=1e-3, atol=1e-4)
    _refuse_what_the_model_does_not_know(scope["predict"])
    _read_rows_of_a_csv(scope["predict"])


def _refuse_what_the_model_does_not_know(predict):
    for row, words in (
        ({"colour": "never seen"}, "column colour: 'never seen' was not in the training data"),
        ({"colr": "red"}, "unknown columns {'colr'}"),
        ({"size": "large"}, "column size: 'large' is not a number"),
    ):
        with pytest.raises(ValueError, match=words):
            predict([row])
    assert len(predict([{}])) == 1


def _read_rows_of_a_csv(predict):
    text = "size,weight,colour,answer\n3.5,NA,red,yes\n,2,,no\n"
    first, second = predict(list(csv.DictReader(text.splitlines())))
    # A batch of another size rounds differently.
    assert first == pytest.approx(predict([{"size": 3.5, "colour": "red"}])[0], rel=1e-4)
    assert second == pytest.approx(predict([{"weight": 2.0}])[0], rel=1e-4)


def test_folds_choose_the_threshold_where_all_rows_are_trained_on(
    make_table_job, write_table, events, monkeypatch
):
    # 100 iterations: these trees are far too certain of the rows that they were trained on.
    monkeypatch.setattr("worker.tasks.tabular.boosting.setup.MOST_VALUES", 0)
    rng = np.random.default_rng(0)
    targets = (rng.random(700) < 0.03).astype(np.int32)
    size = rng.normal(size=700) + 1.5 * targets
    path = write_table(
        "rare.parquet",
        columns={"size": size},
        targets=targets,
        task="tabular-classification",
        num_test=200,
    )
    training = {"early_stopping": 20}
    job_dir = make_table_job(path=path, model="gradient-boosting", training=training)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    found = events(job_dir, "result")[-1]["data"]["threshold"]
    assert found["chosen_on"] == "folds"
    assert 0 < found["probability"] < 0.5
    (manifest,) = job_dir.root.rglob("manifest.json")
    assert json.loads(manifest.read_text())["preprocessing"]["temperature"] > 1.2
