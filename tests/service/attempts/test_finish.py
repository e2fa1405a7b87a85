"""How attempts end, and what becomes of their jobs."""

import pytest

from service.housekeeping import reap_expired

CRASHED = {"code": "crashed", "message": "segfault", "retryable": False}


def test_a_job_succeeds_with_its_artifacts(client, submit, worker, job, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert attempt.succeed(b'{"a": 1}').json() == {"job_status": "succeeded"}
    view = job(job_id)
    assert (view["status"], view["is_terminal"]) == ("succeeded", True)
    assert view["attempts"][0]["status"] == "succeeded"
    artifact = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"][0]
    assert client.get(artifact["url"]).content == b'{"a": 1}'
    assert kinds(job_id) == ["submitted", "started", "succeeded"]


def test_finishing_again_gets_the_same_answer_and_another_finish_is_refused(submit, worker, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    first = attempt.finish("failed", failure=CRASHED)
    again = attempt.finish("failed", failure=CRASHED)
    assert first.json() == again.json() == {"job_status": "failed"}
    other = attempt.finish("released")
    assert (other.status_code, other.json()["code"]) == (409, "already_finished")
    assert kinds(job_id) == ["submitted", "started", "failed"]


def test_success_without_artifacts_is_refused(submit, worker, job):
    job_id = submit()["id"]
    response = worker.claim().finish("succeeded")
    assert (response.status_code, response.json()["code"]) == (422, "no_artifacts")
    assert job(job_id)["status"] == "running"


def test_success_with_bytes_that_are_not_stored_is_refused(submit, worker, job):
    job_id = submit()["id"]
    artifact = {"name": "model.onnx", "kind": "model", "media_type": "application/onnx",
                "sha256": "0" * 64, "size_bytes": 1}  # fmt: skip
    response = worker.claim().finish("succeeded", artifacts=[artifact])
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/artifacts/0/sha256"
    assert job(job_id)["status"] == "running"


def test_an_attempt_cannot_finish_before_all_its_events_arrived(submit, worker):
    submit()
    attempt = worker.claim()
    response = attempt.finish("released", last_seq=3)
    assert response.json()["expected_seq"] == 1


def test_failures_are_retried_within_their_budget(submit, worker, job, kinds):
    job_id = submit(retry={"failures": 1})["id"]
    assert worker.claim().fail().json() == {"job_status": "queued"}
    assert worker.claim().fail().json() == {"job_status": "failed"}
    assert job(job_id)["reason"]["code"] == "crashed"
    assert kinds(job_id) == ["submitted", "started", "requeued", "started", "failed"]


def test_a_permanent_failure_fails_the_job_at_once(submit, worker):
    submit()
    assert worker.claim().fail("bad_input", retryable=False).json() == {"job_status": "failed"}


def test_a_failed_job_keeps_the_files_that_its_worker_uploaded(client, submit, worker):
    job_id = submit()["id"]
    attempt = worker.claim()
    artifact = {"name": "checkpoint.safetensors", "kind": "checkpoint", "size_bytes": 4,
                "media_type": "application/octet-stream",
                "sha256": attempt.upload(b"kept")}  # fmt: skip
    failure = {"code": "unverified", "message": "off by 1", "retryable": False}
    attempt.finish("failed", failure=failure, artifacts=[artifact])
    listed = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"]
    assert [item["name"] for item in listed] == ["checkpoint.safetensors"]


def test_returning_a_job_does_not_use_its_budgets(submit, worker, job):
    job_id = submit(retry={"failures": 0, "lost_workers": 0})["id"]
    for _ in range(5):
        assert worker.claim().finish("released").json() == {"job_status": "queued"}
    assert job(job_id)["attempts"][-1]["status"] == "released"


def test_a_job_whose_gpu_is_busy_waits_with_the_workers_reason(submit, worker, job):
    job_id = submit(retry={"failures": 0})["id"]
    failure = {"code": "gpu_busy", "message": "20 GiB are in use", "retryable": True}
    worker.claim().finish("released", failure=failure)
    assert job(job_id)["status"] == "queued"
    assert job(job_id)["reason"]["message"] == "20 GiB are in use"


def test_a_job_that_kills_its_workers_is_quarantined(submit, worker, expire, services, job):
    job_id = submit()["id"]
    for _ in range(3):
        attempt = worker.claim()
        attempt.report(("progress", {"step": 7, "steps": 10}))
        expire(attempt)
        reap_expired(services)
    assert job(job_id)["status"] == "failed"
    assert job(job_id)["reason"]["code"] == "quarantined"


@pytest.mark.parametrize("outcome", ["cancelled", "released", "failed", "succeeded", "lost"])
def test_a_cancel_that_came_first_wins_over_every_end(
    client, submit, worker, expire, services, job, outcome, kinds
):
    job_id = submit()["id"]
    attempt = worker.claim()
    client.post(f"/v1/jobs/{job_id}/cancel")
    if outcome == "lost":
        expire(attempt)
        reap_expired(services)
    elif outcome == "succeeded":
        assert attempt.succeed().json() == {"job_status": "cancelled"}
    else:
        assert attempt.finish(outcome).json() == {"job_status": "cancelled"}
    assert job(job_id)["status"] == "cancelled"
    assert client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"] == []
    assert kinds(job_id)[-2:] == ["cancelling", "cancelled"]
