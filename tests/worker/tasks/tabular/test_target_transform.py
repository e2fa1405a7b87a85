"""Regressions that are trained on the logarithm of the target."""

import json

import numpy as np
import onnxruntime
import pytest

from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job
from worker.trainer.tables.table import load_table

TASK = "tabular-regression"
LOG = {"target_transform": "log"}
NUM, NUM_TEST = 300, 60


@pytest.fixture
def prices(write_table):
    """A table whose target is a product, from 3 to 3,000."""
    rng = np.random.default_rng(0)
    size, age = rng.normal(size=(2, NUM))
    brand = rng.integers(0, 3, NUM)
    targets = np.exp(4.5 + size - 0.5 * age + 0.5 * brand + 0.05 * rng.normal(size=NUM))
    return write_table(
        "prices.parquet",
        columns={"size": size, "age": age, "brand": brand.tolist()},
        targets=targets,
        task=TASK,
        num_test=NUM_TEST,
        target="price",
        categories={"brand": ["a", "b", "c"]},
    )


def export(job_dir, events):
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")
    assert events(job_dir, "result")[-1]["data"]["verified"] is True
    return json.loads((job_dir.out_dir / "manifest.json").read_text())


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ("tabm", {"epochs": 15, "optimizer": {"lr": 0.01}}),
        ("mlp", {"epochs": 15, "optimizer": {"lr": 0.01}}),
        ("linear", {"epochs": 30, "optimizer": {"lr": 0.05}}),
        ("gradient-boosting", {"steps": 60}),
    ],
)
def test_the_file_predicts_the_target_itself_and_never_below_zero(
    make_table_job, prices, rehearsed, events, model, training
):
    job_dir = make_table_job(task=TASK, path=prices, model=model, training={**LOG, **training})
    manifest = export(job_dir, events)
    table = load_table(prices)
    session = onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")
    codes = table.codes.astype(np.int64)
    (found,) = session.run(None, {"numbers": table.numbers, "codes": codes})
    test, truth = found[-NUM_TEST:], table.targets[-NUM_TEST:]
    assert (found > 0).all()
    assert 1 - ((test - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum() > 0.6
    error = np.sqrt(((test - truth) ** 2).mean())
    assert manifest["metrics"]["test/rmse"] == pytest.approx(error, rel=1e-3)
    assert manifest["preprocessing"]["target_transform"] == "log"
    report = (job_dir.out_dir / "report.md").read_text()
    assert "trained on the logarithm of price. The file returns price itself" in report
    assert 1 < manifest["preprocessing"]["smearing"] < 1.5


def test_auto_learns_the_logarithm_of_a_product_and_says_why(
    make_table_job, prices, rehearsed, events
):
    job_dir = make_table_job(task=TASK, path=prices, model="linear", training={"epochs": 5})
    manifest = export(job_dir, events)
    (text,) = [
        event["data"]["text"]
        for event in events(job_dir, "message")
        if "is trained on the logarithm of price, because simple models" in event["data"]["text"]
    ]
    assert text.endswith("To train on price itself: --set training.target_transform=none")
    assert manifest["spec"]["training"]["target_transform"] == "log"
    report = (job_dir.out_dir / "report.md").read_text()
    assert "logarithm of price, because simple models predict held-out training rows" in report


@pytest.mark.parametrize(
    "fields",
    [
        {"training": {"target_transform": "none"}},
        {"training": {"loss": "huber"}},
        {"training": {"loss": "mae"}},
        {"export": {"variants": ["fp16"]}},
    ],
)
def test_the_logarithm_is_not_chosen_against_the_spec(make_table_job, prices, start, fields):
    _, setup = start(make_table_job(task=TASK, path=prices, **fields))
    assert setup.spec.training.target_transform == "none"


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_only_square_errors_are_corrected_to_the_mean(
    make_table_job, prices, rehearsed, events, loss
):
    training = {**LOG, "epochs": 5, "loss": loss}
    job_dir = make_table_job(task=TASK, path=prices, model="linear", training=training)
    preprocessing = export(job_dir, events)["preprocessing"]
    assert (preprocessing["smearing"] == 1) is (loss == "mae")


def test_validation_metrics_are_in_the_targets_unit(make_table_job, prices, start):
    training = {**LOG, "epochs": 15, "optimizer": {"lr": 0.01}}
    loop, _ = start(make_table_job(task=TASK, path=prices, training=training))
    loop.run()
    metrics = loop.best_metrics
    assert metrics["val/loss"] < 0.5
    assert metrics["val/rmse"] > metrics["val/mae"] > 2
    assert 0 < metrics["val/r2"] < 1


def test_every_fold_predicts_the_target_itself(make_table_job, prices, rehearsed, events):
    scores = []
    for transform in ("none", "log"):
        training = {"target_transform": transform, "folds": 2}
        model = "gradient-boosting"
        job_dir = make_table_job(transform, task=TASK, path=prices, model=model, training=training)
        export(job_dir, events)
        folds = events(job_dir, "result")[-1]["data"]["cross_validation"]["folds"]
        scores.append([fold["rmse"] for fold in folds])
    assert scores[1] == pytest.approx(scores[0], rel=0.5)
    assert scores[1] != scores[0]


def test_a_target_without_a_logarithm_fails_the_job(make_table_job, write_table, events):
    path = write_table(
        "zero.parquet",
        columns={"size": np.arange(40.0)},
        targets=np.arange(40.0),
        task=TASK,
        num_test=10,
    )
    job_dir = make_table_job(task=TASK, path=path, training=LOG)
    run_job(job_dir, StopSignal())
    failure = events(job_dir)[-1]["data"]
    assert failure["code"] == "bad_input"
    assert failure["details"]["pointer"] == "/training/target_transform"
    assert "only values above 0 have a logarithm, but answer has 0" in failure["message"]
