from datetime import UTC, datetime

import pytest

from redkiln.cli.view.differences import compare_jobs, is_lower_better
from redkiln.views.job import JobView


def job(spec, *, metrics=None, resolved=None):
    return JobView(
        id="job_1",
        name="a",
        task="image-classification",
        status="succeeded",
        is_terminal=True,
        spec=spec,
        resolved_spec=resolved,
        result={"metrics": metrics or {}},
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


def test_only_fields_that_differ_are_listed_by_their_paths():
    first = job({"name": "a", "dataset": "d", "training": {"epochs": 3, "seed": 0}})
    second = job({"name": "b", "dataset": "d", "training": {"epochs": 5, "seed": 0, "ema": 0.9}})
    rows = {row.name: row.values for row in compare_jobs([first, second]).spec}
    assert rows == {"training.epochs": (3, 5), "training.ema": (None, 0.9)}


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


@pytest.mark.parametrize(
    ("metric", "is_lower"),
    [("test/loss", True), ("val/rmse", True), ("test/accuracy", False), ("val/r2", False)],
)
def test_errors_are_better_when_low(metric, is_lower):
    assert is_lower_better(metric) is is_lower
