from datetime import UTC, datetime

import pytest

from redkiln.cli.view.differences import compare_jobs, is_lower_better
from redkiln.spec.boosting import leave_unread
from redkiln.spec.tabular import TabularSpec
from redkiln.views.job import JobView


def job(spec, *, metrics=None, resolved=None, folds=None):
    return JobView(
        id="job_1",
        name="a",
        task="image-classification",
        status="succeeded",
        is_terminal=True,
        spec=spec,
        resolved_spec=resolved,
        result={
            "metrics": metrics or {},
            "cross_validation": {"folds": folds} if folds else None,
        },
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


def test_only_fields_that_differ_are_listed_by_their_paths():
    first = job({"name": "a", "dataset": "d", "training": {"epochs": 3, "seed": 0}})
    second = job({"name": "b", "dataset": "d", "training": {"epochs": 5, "seed": 0, "ema": 0.9}})
    rows = {row.name: row.values for row in compare_jobs([first, second]).spec}
    assert rows == {"training.epochs": (3, 5), "training.ema": (None, 0.9)}


def test_different_data_sets_with_the_same_name_are_told_apart_by_their_ids():
    first, second = (
        job({"dataset": "pools"}).model_copy(update={"dataset_id": name, "dataset_name": "pools"})
        for name in ("ds_1", "ds_2")
    )
    (row,) = compare_jobs([first, second]).spec
    assert (row.name, row.values) == ("dataset", ("pools (ds_1)", "pools (ds_2)"))
    assert compare_jobs([first, first]).spec == []


def test_specs_are_compared_as_resolved_if_all_are():
    first = job({"batch": "auto"}, resolved={"batch": 32})
    second = job({"batch": "auto"}, resolved={"batch": 64})
    assert compare_jobs([first, second]).spec[0].values == (32, 64)
    assert compare_jobs([first, job({"batch": "auto"})]).spec == []


def test_the_best_value_of_each_metric_is_known():
    first = job({}, metrics={"test/accuracy": 0.9, "test/loss": 0.4, "test/f1": 0.5})
    second = job({}, metrics={"test/accuracy": 0.8, "test/loss": 0.3, "test/f1": 0.5})
    best = {row.name: row.best for row in compare_jobs([first, second]).metrics}
    assert best == {"test/accuracy": {0}, "test/loss": {1}, "test/f1": frozenset()}


def test_no_result_is_the_best_if_the_test_splits_differ():
    folds = [[{"accuracy": share}, {"accuracy": share}] for share in (0.8, 0.9)]
    first, second = (job({}, metrics=one[0], folds=one) for one in folds)
    assert [row.best for row in compare_jobs([first, second]).folds] == [{1}]
    compared = compare_jobs([first, second], is_ranked=False)
    assert {row.best for row in (*compared.metrics, *compared.folds)} == {frozenset()}


@pytest.mark.parametrize(
    ("metric", "is_lower"),
    [("test/loss", True), ("val/rmse", True), ("test/accuracy", False), ("val/r2", False)],
)
def test_errors_are_better_when_low(metric, is_lower):
    assert is_lower_better(metric) is is_lower


def tabular(name, **training):
    spec = TabularSpec(task="tabular-regression", dataset="d", model=name, training=training)
    return job(leave_unread(spec.model_dump(mode="json")))


def test_a_model_shows_no_value_for_a_field_that_only_the_other_reads():
    compared = compare_jobs([tabular("linear"), tabular("gradient-boosting")])
    rows = {row.name: row.values for row in compared.spec}
    assert rows["training.optimizer.lr"] == (0.02, None)
    assert rows["model.options.leaves"] == (None, 31)
    assert "model.options" not in rows


def test_folds_are_compared_by_their_means():
    first = job({}, folds=[{"rmse": 1.0}, {"rmse": 3.0}])
    second = job({}, folds=[{"rmse": 3.0, "r2": 0.5}, {"rmse": 5.0, "r2": 0.5}])
    rows = {row.name: row for row in compare_jobs([first, second, job({})]).folds}
    assert rows["rmse"].values == ((2.0, 2**0.5), (4.0, 2**0.5), None)
    assert (rows["rmse"].best, rows["r2"].values) == ({0}, (None, (0.5, 0.0), None))
