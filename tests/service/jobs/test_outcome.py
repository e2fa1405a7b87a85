"""What a job achieved, once it has ended."""

from datetime import UTC, datetime, timedelta

import pytest

from redkiln.views.comparison import Comparison
from redkiln.views.result import Verdict
from service.jobs.models import JobEvent
from service.jobs.outcome import (
    final_metrics,
    find_headline,
    judge,
    measure_times,
    read_standing,
)
from tests.service.conftest import MANIFEST

START = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = {"kind": "model", "name": "model.onnx", "media_type": "application/octet-stream"}
RESULT = {"metrics": {"test/accuracy": 0.5, "test/accuracy_onnx": 0.25, "val/accuracy": 0.9}}


@pytest.fixture
def publish():
    def publish(attempt, *, verified):
        data = b"not really a model"
        facts = {"sha256": attempt.upload(data), "size_bytes": len(data)}
        return attempt.finish("succeeded", artifacts=[{**MODEL, **facts, "verified": verified}])

    return publish


def test_a_job_has_no_result_before_its_end(submit, worker, job):
    queued = submit()
    worker.claim()
    assert queued["result"] is None
    assert job(queued["id"])["result"] is None


@pytest.mark.parametrize(
    ("verified", "verdict"), [(True, "verified"), (False, "unverified"), (None, "not_checked")]
)
def test_a_job_that_succeeded_has_the_result_of_what_it_exported(
    client, submit, worker, job, publish, verified, verdict
):
    job_id = submit()["id"]
    attempt = worker.claim()
    attempt.report(("phase", {"phase": "training"}), ("result", RESULT))
    publish(attempt, verified=verified)
    result = job(job_id)["result"]
    assert result["metrics"] == {"test/accuracy": 0.5, "test/accuracy_onnx": 0.25}
    assert (result["headline"], result["verdict"]) == ("test/accuracy_onnx", verdict)
    (file,) = result["files"]
    assert (file["name"], file["url"]) == ("model.onnx", f"/v1/artifacts/{file['id']}/content")
    assert set(result["phase_seconds"]) == {"training"}
    (listed,) = client.get("/v1/jobs").json()["data"]
    assert listed["result"] == {name: value for name, value in result.items() if name != "files"}


def test_a_failed_job_has_the_files_and_times_that_it_left(submit, worker, job):
    job_id = submit(retry={"failures": 0})["id"]
    attempt = worker.claim()
    artifact = {**MANIFEST, "sha256": attempt.upload(b"{}"), "size_bytes": 2}
    failure = {"code": "script_failed", "message": "it broke", "retryable": False}
    attempt.finish("failed", failure=failure, artifacts=[artifact])
    result = job(job_id)["result"]
    assert (result["metrics"], result["verdict"]) == ({}, None)
    assert [file["name"] for file in result["files"]] == ["manifest.json"]


def test_a_retried_job_has_no_result_until_it_ends_again(client, submit, worker, job):
    job_id = submit(retry={"failures": 0})["id"]
    worker.claim().fail(retryable=False)
    assert job(job_id)["result"] is not None
    client.post(f"/v1/jobs/{job_id}/retry")
    assert job(job_id)["result"] is None


def test_running_time_does_not_include_the_queue_or_pauses():
    times = measure_times(
        event(kind, seconds, **data)
        for kind, seconds, data in [
            ("submitted", 0, {}),
            ("started", 5, {}),
            ("phase", 5, {"phase": "training"}),
            ("paused", 15, {}),
            ("resumed", 1000, {}),
            ("started", 1002, {}),
            ("phase", 1002, {"phase": "training"}),
            ("phase", 1012, {"phase": "exporting"}),
            ("succeeded", 1015, {}),
        ]
    )
    assert times == {
        "queued_seconds": 7,
        "paused_seconds": 985,
        "running_seconds": 23,
        "phase_seconds": {"training": 20, "exporting": 3},
    }


@pytest.mark.parametrize(
    ("history", "queued", "running"),
    [
        (
            [("started", 0), ("finishing", 5), ("requeued", 6), ("started", 8), ("succeeded", 9)],
            2,
            7,
        ),
        ([("started", 0), ("cancelled", 5), ("finishing", 100), ("started", 103)], 3, 5),
        ([("started", 0), ("paused", 5), ("finishing", 100), ("started", 103)], 3, 5),
        ([("submitted", 0), ("finishing", 5), ("started", 7)], 7, 0),
    ],
)
def test_a_job_that_is_finished_early_waits_only_while_it_is_queued(history, queued, running):
    times = measure_times(event(kind, seconds) for kind, seconds in history)
    assert (times["queued_seconds"], times["running_seconds"]) == (queued, running)


def test_a_clock_of_a_worker_that_runs_ahead_makes_no_negative_time():
    history = [("started", 0, {}), ("phase", 60, {"phase": "training"}), ("failed", 50, {})]
    times = measure_times(event(kind, seconds, **data) for kind, seconds, data in history)
    assert times["running_seconds"] == 50
    assert times["phase_seconds"] == {"training": 0}


def event(kind, seconds, **data):
    at = START + timedelta(seconds=seconds)
    return JobEvent(job_id="job_1", seq=1, at=at, kind=kind, data=data)


@pytest.mark.parametrize(
    ("verified", "verdict"),
    [
        ([], None),
        ([True, True], Verdict.VERIFIED),
        ([True, None], Verdict.NOT_CHECKED),
        ([True, False, None], Verdict.UNVERIFIED),
    ],
)
def test_the_worst_model_decides_the_verdict(verified, verdict):
    assert judge(verified) is verdict


def test_metrics_of_the_test_split_come_first_and_others_count_without_them():
    assert final_metrics({"val/loss": 1, "test/loss": 2}) == {"test/loss": 2}
    assert final_metrics({"loss": 1, "note": "x", "lost": float("nan")}) == {"loss": 1}
    assert find_headline({"loss": 1}) is None


COMPARISON = {
    "metric": "test/accuracy",
    "value": 0.5,
    "interval": [0.4, 0.6],
    "baselines": [{"name": "majority class", "metrics": {"test/accuracy": 0.3}, "note": ""}],
    "best": "majority class",
    "verdict": "better",
    "beats_constant": True,
    "both_perfect": False,
    "num_different": 3,
    "num_test": 26,
    "is_paired": True,
}


def test_a_result_has_its_intervals_and_its_comparison_with_baselines(submit, worker, job, publish):
    job_id = submit()["id"]
    attempt = worker.claim()
    copies = {"noun": "texts", "num_test": 60, "num_copies": 1, "num_repeated": 12}
    standing = {
        "intervals": {"test/accuracy": [0.4, 0.6]},
        "comparison": COMPARISON,
        "copies": copies,
    }
    attempt.report(("result", {**RESULT, **standing}))
    publish(attempt, verified=True)
    result = job(job_id)["result"]
    assert {name: result[name] for name in standing} == standing


@pytest.mark.parametrize(
    ("compared", "headline"),
    [("test/accuracy", "test/accuracy_onnx"), ("test/macro_f1", "test/macro_f1"),
     ("test/auc", "test/accuracy_onnx")],
)  # fmt: skip
def test_the_headline_is_the_metric_that_says_something_on_these_data(compared, headline):
    comparison = Comparison.model_validate({**COMPARISON, "metric": compared})
    metrics = ("test/accuracy", "test/macro_f1", "test/accuracy_onnx")
    assert find_headline(metrics, compared=comparison) == headline


def test_a_result_lists_the_variants_and_which_one_to_use():
    one = {"name": "fp16", "file": "model-fp16.onnx", "verified": True, "metric_name": "accuracy",
           "metric": 0.9, "size_bytes": 7, "median_ms": 1.5, "misses": []}  # fmt: skip
    found = read_standing({"variants": [one], "recommendation": "Use model-fp16.onnx."})
    assert found["variants"][0].model_dump() == one
    assert found["recommendation"] == "Use model-fp16.onnx."


@pytest.mark.parametrize("reported", [{}, {"comparison": {"metric": "of another version"}}])
def test_a_result_without_a_readable_comparison_has_none(reported):
    assert read_standing(reported).get("comparison") is None
