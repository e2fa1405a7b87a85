import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from redkiln.tables import TARGET
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_FAILED
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

TASKS = ["tabular-classification", "tabular-regression"]


def warnings_of(events, job_dir):
    return {e["data"]["code"]: e["data"]["message"] for e in events(job_dir, "warning")}


def failure_of(events, job_dir):
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    return events(job_dir)[-1]["data"]


@pytest.mark.parametrize(
    ("task", "better"),
    [
        ("tabular-classification", {"val/accuracy": 0.8, "val/macro_f1": 0.8}),
        ("tabular-regression", {"val/r2": 0.8}),
    ],
)
@pytest.mark.parametrize("model", ["tabm", "mlp", "linear"])
def test_a_table_is_learnt_and_every_metric_is_reported(make_table_job, start, task, better, model):
    optimizer = {"name": "adamw", "lr": 0.02}
    job_dir = make_table_job(
        task=task, model={"name": model}, training={"epochs": 20, "optimizer": optimizer}
    )
    loop, setup = start(job_dir)
    loop.run()
    assert set(loop.best_metrics) == set(setup.spec.training.metrics)
    for name, least in better.items():
        assert loop.best_metrics[name] >= least
    assert setup.counts == {"train": 180, "validation": 20, "test": 40}


def test_errors_are_reported_in_the_targets_unit(make_table_job, start):
    loop, _ = start(make_table_job(task="tabular-regression"))
    loop.run()
    metrics = loop.best_metrics
    # Targets have a standard deviation of about 130.
    assert 5 < metrics["val/mae"] <= metrics["val/rmse"] < 300
    assert metrics["val/loss"] < 3


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_run_has_the_same_curve(make_table_job, start, losses, task):
    whole = make_table_job("whole", task=task)
    start(whole)[0].run()
    part = make_table_job("part", task=task)
    loop, _ = start(part)
    loop.advance(14)  # in the middle of the second epoch
    loop._save(is_best=False, metrics={})
    newest = CheckpointStore(part.checkpoints_dir).manifests()[-1]
    resumed = make_table_job("part", task=task, order={"resume": newest.name})
    start(resumed)[0].run()
    assert losses(part) == losses(whole)


@pytest.mark.parametrize("task", TASKS)
def test_micro_steps_have_the_same_curve_as_the_whole_batch(make_table_job, start, losses, task):
    model = {"options": {"dropout": 0.0}}
    whole = make_table_job("whole", task=task, model=model)
    start(whole)[0].run()
    parts = make_table_job("parts", task=task, model=model, training={"accumulation": 4})
    start(parts)[0].run()
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("from_call", [1, 7])
def test_running_out_of_memory_at_any_step_does_not_change_the_curve(
    make_table_job, start, losses, run_out_of_memory, task, from_call
):
    settings = {"task": task, "model": {"options": {"dropout": 0.0}}}
    whole = make_table_job("whole", **settings)
    loop, _ = start(whole)
    loop.run()
    small = make_table_job("small", **settings)
    other, setup = start(small)
    run_out_of_memory(setup.model, limit=5, from_call=from_call)
    other.run()
    assert setup.spec.training.accumulation == 4
    assert losses(small) == pytest.approx(losses(whole), rel=1e-4, abs=1e-6)
    assert other.best_metrics == pytest.approx(loop.best_metrics, rel=1e-3)


@pytest.mark.parametrize("half", [1, 2])
def test_running_out_of_memory_once_at_any_step_does_not_change_the_curve(
    make_table_job, start, losses, events, run_out_of_memory, half
):
    halves = {"model": {"options": {"dropout": 0.0}}, "training": {"accumulation": 2}}
    whole = make_table_job("whole", **halves)
    start(whole)[0].run()
    undisturbed = losses(whole)
    # Within the first epoch, at its end, and in the one behind it; in either half of the batch.
    for step in (*range(1, 9), 11, 12):
        job_dir = make_table_job(f"small{step}", **halves)
        loop, setup = start(job_dir)
        call = 2 * (step - 1) + half
        run_out_of_memory(setup.model, limit=4, from_call=call, until_call=call)
        loop.run()
        assert setup.spec.training.accumulation == 4
        assert warnings_of(events, job_dir)["out_of_memory"].startswith(f"step {step}:")
        found = losses(job_dir)
        assert all(found[n] == undisturbed[n] for n in range(1, step))
        assert found == pytest.approx(undisturbed, rel=1e-4, abs=1e-6), step


def test_test_targets_affect_neither_weights_nor_the_best_checkpoint(
    make_table_job, write_table, start, tmp_path
):
    path = write_table()
    table = parquet.read_table(path)
    place = table.column_names.index(TARGET)
    targets = table[TARGET].to_numpy().copy()
    targets[-40:] = 1 - targets[-40:]
    other = table.set_column(place, table.schema.field(TARGET), pa.array(targets))
    parquet.write_table(other, tmp_path / "other.parquet")

    found = []
    for name, of in (("plain", path), ("scrambled", tmp_path / "other.parquet")):
        order = {"cache_dir": str(tmp_path / name / "cache")}
        job_dir = make_table_job(name, path=of, order=order, training={"keep_checkpoints": 3})
        loop, setup = start(job_dir)
        loop.run()
        store = CheckpointStore(job_dir.checkpoints_dir)
        best = store.find_best()
        found.append((loop.history.series["val/loss"], best.step, best.metrics))
        found.append(store.load(best.name).weights)
        found.append(setup.model.state_dict())
    plain, scrambled = found[:3], found[3:]
    assert plain[0] == scrambled[0]
    for left, right in zip(plain[1:], scrambled[1:], strict=True):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(("model", "batch_size"), [("tabm", 32), ("mlp", 8)])
def test_auto_leaves_nothing_open(make_table_job, start, model, batch_size):
    training = {"batch_size": "auto", "precision": "auto"}
    _, setup = start(make_table_job(model={"name": model}, training=training))
    assert "auto" not in json.dumps(setup.spec.model_dump(mode="json")["model"])
    assert setup.spec.training.batch_size == batch_size
    assert setup.spec.training.precision == "fp32"
    assert setup.spec.training.schedule.warmup_fraction == 0.0


def test_tables_train_for_more_epochs_than_images_by_default(make_table_job, start):
    job_dir = make_table_job()
    order = job_dir.load_order()
    del order.spec["training"]["epochs"]
    job_dir.order_path.write_text(order.model_dump_json())
    _, setup = start(job_dir)
    assert setup.plan.epochs == setup.spec.training.default_epochs > 10


def test_a_batch_larger_than_the_table_is_reduced_with_a_warning(make_table_job, start, events):
    job_dir = make_table_job(training={"batch_size": 5000})
    _, setup = start(job_dir)
    assert setup.spec.training.batch_size == 180
    assert "not 5000" in warnings_of(events, job_dir)["batch_size_reduced"]


def test_early_stopping_accepts_any_metric_of_the_task(make_table_job, start):
    stopping = {"metric": "val/r2", "patience": 1, "min_delta": 10.0}
    training = {"epochs": 9, "early_stopping": stopping}
    loop, setup = start(make_table_job(task="tabular-regression", training=training))
    loop.run()
    assert loop.step == 2 * setup.plan.steps_per_epoch


@pytest.mark.parametrize(
    ("model", "training", "least"),
    [("tabm", {}, 6), ("tabm", {"early_stopping": 9}, 0), ("mlp", {}, 0)],
)
def test_an_ensemble_chooses_among_late_epochs_on_few_validation_rows(
    make_table_job, start, events, model, training, least
):
    job_dir = make_table_job(model={"name": model}, training={"epochs": 8, **training})
    loop, setup = start(job_dir)
    assert setup.least_epochs == least
    losses = iter([0.1, 0.2, 0.3, 0.3, 0.3, 0.9, 0.7, 0.8])
    others = {"val/accuracy": 0.5, "val/macro_f1": 0.5}
    evaluate = lambda *, should_stop: {"val/loss": next(losses), **others}  # noqa: E731
    object.__setattr__(setup, "evaluate", evaluate)
    loop.run()
    assert loop.best_metrics["val/loss"] == (0.7 if least else 0.1)
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    assert any(f"best epoch is chosen from epoch {least} on" in t for t in texts) == (least > 0)


@pytest.mark.parametrize(("batch_size", "least"), [(6, 9), (90, 30)])
def test_an_ensemble_with_many_steps_an_epoch_chooses_among_earlier_epochs(
    make_table_job, start, batch_size, least
):
    job_dir = make_table_job(
        model={"name": "tabm"}, training={"batch_size": batch_size, "epochs": 40}
    )
    _, setup = start(job_dir)
    assert setup.plan.steps_per_epoch == 180 // batch_size
    assert setup.least_epochs == least


@pytest.mark.parametrize(
    ("task", "training"),
    [("tabular-regression", {}), ("tabular-classification", {"validation_fraction": 0.0})],
)
def test_values_and_no_validation_leave_every_epoch_a_candidate(
    make_table_job, start, task, training
):
    _, setup = start(make_table_job(task=task, model={"name": "tabm"}, training=training))
    assert setup.least_epochs == 0


def test_without_validation_the_newest_weights_count(make_table_job, start):
    loop, setup = start(make_table_job(training={"validation_fraction": 0.0}))
    assert setup.evaluate is None
    assert setup.counts["train"] == 200
    loop.run()
    assert loop.best_metrics == {}


def test_the_report_says_how_to_take_class_weights_out_of_the_outputs(make_table_job, rehearsed):
    training = {"epochs": 1, "class_weights": {"yes": 10.0}}
    job_dir = make_table_job(model={"name": "linear"}, training=training)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    logs = manifest["preprocessing"]["weight_logs"]
    assert max(logs) - min(logs) == pytest.approx(np.log(10))
    report = (job_dir.out_dir / "report.md").read_text()
    assert "so rare classes look more probable than they are" in report
    assert f"{max(logs):+.3g} for yes" in report


def test_class_weights_change_the_loss(make_table_job, start, losses):
    plain, weighted = make_table_job("plain"), make_table_job("weighted")
    order = weighted.load_order()
    order.spec["training"]["class_weights"] = {"yes": 10.0}
    weighted.order_path.write_text(order.model_dump_json())
    for job_dir in (plain, weighted):
        start(job_dir)[0].advance(2)
    assert losses(weighted)[1] != pytest.approx(losses(plain)[1], rel=0.01)


def test_a_warning_names_columns_without_values(make_table_job, write_table, start, events):
    rng = np.random.default_rng(0)
    columns = {
        "good": rng.normal(size=60),
        "empty": np.full(60, np.nan),
        "stamp": 1.7e9 + rng.normal(size=60),
        "same": np.full(60, 1e9),
        "none": [None] * 60,
    }
    path = write_table(
        columns=columns,
        targets=[0, 1] * 30,
        task=TASKS[0],
        num_test=10,
        categories={"none": []},
    )
    job_dir = make_table_job(path=path)
    loop, _ = start(job_dir)
    loop.run()
    said = warnings_of(events, job_dir)
    assert said["empty_columns"].endswith("are useless: empty, none")
    assert "float32: stamp;" in said["coarse_columns"]


@pytest.mark.parametrize(("offset", "is_told"), [(1e9, True), (100.0, False)])
def test_a_target_that_loses_digits_in_float32_gives_a_warning(
    make_table_job, write_table, start, events, offset, is_told
):
    values = np.random.default_rng(0).normal(size=60)
    path = write_table(columns={"x": values}, targets=offset + values, task=TASKS[1], num_test=10)
    job_dir = make_table_job(task=TASKS[1], path=path)
    start(job_dir)
    said = warnings_of(events, job_dir)
    assert ("coarse_target" in said) == is_told
    if is_told:
        assert "the values of answer are large but differ little" in said["coarse_target"]


def test_one_column_is_enough(make_table_job, write_table, start):
    path = write_table(
        columns={"only": [0, 1, None, 0] * 10},
        targets=[0, 1] * 20,
        task=TASKS[0],
        num_test=8,
        categories={"only": ["a", "b"]},
    )
    start(make_table_job(path=path))[0].run()


def test_a_table_of_another_task_is_refused(make_table_job, write_table, events):
    path = write_table(task="tabular-regression")
    failure = failure_of(events, make_table_job(path=path))
    assert failure["code"] == "bad_input"
    assert "is for tabular-regression, not for tabular-classification" in failure["message"]


@pytest.mark.parametrize(
    ("num_test", "columns", "words"),
    [(0, {"x": [0.0, 1.0]}, "no test rows"), (1, {}, "no numeric or categorical column")],
)
def test_a_table_that_cannot_be_trained_on_is_refused(
    make_table_job, write_table, events, num_test, columns, words
):
    path = write_table(columns=columns, targets=[0, 1], task=TASKS[0], num_test=num_test)
    failure = failure_of(events, make_table_job(path=path))
    assert (failure["code"], words in failure["message"]) == ("bad_input", True)


def test_a_loss_that_is_not_finite_fails_the_run_with_its_step(make_table_job, events):
    optimizer = {"name": "sgd", "lr": 100.0}
    job_dir = make_table_job(
        task="tabular-regression", training={"epochs": 30, "optimizer": optimizer}
    )
    failure = failure_of(events, job_dir)
    assert failure["code"] == "diverged"
    assert "lower learning rate" in failure["message"]


@pytest.mark.parametrize("task", TASKS)
def test_bins_and_scales_come_from_the_training_split_and_are_exported(make_table_job, start, task):
    job_dir = make_table_job(task=task)
    loop, setup = start(job_dir)
    before = {name: tensor.clone() for name, tensor in setup.model.named_buffers()}
    assert before["numbers.slopes"].any()
    loop.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    weights = store.load(store.find_best().name).weights
    assert all(torch.equal(weights[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize(("asked", "tried"), [("auto", "off"), ("default", "default")])
def test_a_cpu_job_tries_compiling_only_on_request(
    make_table_job, start, monkeypatch, asked, tried
):
    found = []
    monkeypatch.setattr(
        "worker.trainer.autotune.tuning.tune_compile",
        lambda setup, **_: found.append(setup.spec.training.compile),
    )
    start(make_table_job(training={"compile": asked}))
    assert found == [tried]
