"""Scripts that start with the checkpoints of another one."""

import pytest

from service.housekeeping import collect_blobs
from service.settings import Settings

COMMAND = {"command": ["python", "train.py"]}


@pytest.fixture
def settings(state_dir):
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, scripts="on")


@pytest.fixture
def run(client):
    """Submit a script; the answer."""

    def run(**script):
        spec = {"task": "script", "script": {**COMMAND, **script}, "retry": {"failures": 0}}
        return client.post("/v1/jobs", json=spec)

    return run


@pytest.fixture
def failed(run, worker):
    """A script that left two checkpoints and failed; its id."""
    job_id = run().json()["id"]
    attempt = worker.claim()
    attempt.checkpoint(10)
    attempt.checkpoint(20)
    attempt.fail(retryable=False)
    return job_id


def test_the_first_attempt_is_offered_the_newest_checkpoint_of_the_named_job(
    client, run, worker, failed, job
):
    started = run(start_from=f"job:{failed}").json()["id"]
    attempt = worker.claim()
    (offered,) = attempt.claimed["checkpoints"]
    assert (attempt.job_id, offered["step"]) == (started, 20)
    assert job(started)["attempts"][0]["resumed_from_step"] == 20
    content = client.get(
        f"/v1/attempts/{attempt.id}/blobs/{offered['sha256']}", headers=attempt.headers
    )
    assert content.content == f"{failed} at 20".encode()
    assert attempt.checkpoint(21).json() == {"kept_steps": [20, 21]}


def test_the_files_stay_when_the_named_job_is_deleted(client, run, worker, failed, services):
    run(start_from=f"job:{failed}")
    assert client.delete(f"/v1/jobs/{failed}").status_code == 204
    collect_blobs(services)
    attempt = worker.claim()
    sha256 = attempt.claimed["checkpoints"][0]["sha256"]
    answer = client.get(f"/v1/attempts/{attempt.id}/blobs/{sha256}", headers=attempt.headers)
    assert answer.status_code == 200


def test_a_job_without_such_files_is_refused_with_the_reason(client, run, submit):
    empty, other = run().json()["id"], submit()["id"]
    for job_id, code in (
        ("job_missing", "unknown_job"),
        (other, "task_mismatch"),
        (empty, "no_checkpoint"),
    ):
        (problem,) = run(start_from=f"job:{job_id}").json()["errors"]
        assert (problem["pointer"], problem["code"]) == ("/script/start_from", code)
    (problem,) = run(start_from=empty).json()["errors"]
    assert problem["pointer"] == "/script/start_from"


@pytest.mark.parametrize("status", ["queued", "running", "failed"])
def test_a_script_cannot_be_finished_early(client, run, worker, status):
    job_id = run().json()["id"]
    if status != "queued":
        attempt = worker.claim()
    if status == "failed":
        attempt.fail(retryable=False)
    answer = client.post(f"/v1/jobs/{job_id}/finish")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_model")
    assert answer.json()["detail"].startswith("a script cannot be finished early, because")
