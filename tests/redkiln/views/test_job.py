from datetime import UTC, datetime

import pytest

from redkiln.views.dataset import DatasetView
from redkiln.views.job import JobSummary, JobView
from redkiln.views.result import JobResult

FACTS = {
    "id": "job_1",
    "name": "digits-1",
    "task": "image-classification",
    "status": "running",
    "is_terminal": False,
    "created_at": datetime(2026, 11, 21, tzinfo=UTC),
    "progress": {"metrics": {"val/accuracy": 0.5}},
}


@pytest.mark.parametrize(("view", "extra"), [(JobView, {"spec": {"a": 1}}), (JobSummary, {})])
def test_a_job_prints_as_one_short_line(view, extra):
    job = view(**FACTS, **extra)
    assert repr(job) == str(job) == f"<{view.__name__} digits-1 (job_1): running>"


def test_a_data_set_prints_as_one_short_line():
    dataset = DatasetView(id="ds_1", name="houses", status="ready", kind="archive")
    assert repr(dataset) == str(dataset) == "<DatasetView houses (ds_1): ready>"


def test_a_jobs_metrics_are_those_of_its_result_once_it_has_one():
    assert JobSummary(**FACTS).metrics() == {"val/accuracy": 0.5}
    ended = JobSummary(**FACTS, result={"metrics": {"test/accuracy": 0.9}})
    assert ended.metrics() == {"test/accuracy": 0.9}
    assert JobSummary(**{**FACTS, "progress": None}).metrics() == {}


def test_a_result_is_printed_in_one_line():
    result = JobResult(metrics={"test/accuracy": 0.98765}, verdict="verified")
    assert str(result) == repr(result) == "<JobResult verified: test/accuracy 0.9877; 0 files>"
