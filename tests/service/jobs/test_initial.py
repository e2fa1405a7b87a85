"""Jobs that start from the weights of another one."""

import pytest

WEIGHTS = b"weights of the first job"
CHECKPOINT = {
    "name": "checkpoint.safetensors",
    "kind": "checkpoint",
    "media_type": "application/octet-stream",
}


@pytest.fixture
def trained(submit, worker):
    """A job that trained a resnet18 and left its weights."""
    submitted = submit(model="resnet18")
    attempt = worker.claim()
    spec = {**submitted["spec"], "model": {**submitted["spec"]["model"], "name": "resnet18"}}
    assert attempt.report(("resolved", {"spec": spec, "environment": {}})).status_code == 200
    commit = {**CHECKPOINT, "sha256": attempt.upload(WEIGHTS), "size_bytes": len(WEIGHTS)}
    assert attempt.finish("succeeded", artifacts=[commit]).status_code == 200
    return submitted["id"]


def refusal(client, **spec):
    response = client.post("/v1/jobs", json={"dataset": "builtin:digits", **spec})
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    return error["pointer"], error["message"]


def test_the_claim_names_the_weights_and_its_worker_may_read_them(client, trained, submit, worker):
    submit(model=f"job:{trained}")
    attempt = worker.claim()
    initial = attempt.claimed["initial"]
    assert (initial["job_id"], initial["size_bytes"]) == (trained, len(WEIGHTS))
    url = f"/v1/attempts/{attempt.id}/blobs/{initial['sha256']}"
    assert client.get(url, headers=attempt.headers).content == WEIGHTS


def test_other_jobs_may_not_read_them(client, trained, submit, worker):
    sha256 = client.get(f"/v1/jobs/{trained}/artifacts").json()["data"][0]["sha256"]
    submit()
    attempt = worker.claim()
    assert attempt.claimed["initial"] is None
    url = f"/v1/attempts/{attempt.id}/blobs/{sha256}"
    assert client.get(url, headers=attempt.headers).status_code == 404


def test_a_job_that_was_deleted_since_is_told_as_gone(client, trained, submit, worker):
    submit(model=f"job:{trained}")
    assert client.delete(f"/v1/jobs/{trained}").status_code == 204
    assert worker.claim().claimed["initial"] is None


def test_a_job_that_is_not_there_is_refused(client):
    pointer, message = refusal(client, model="job:job_nothing")
    assert pointer == "/model/pretrained"
    assert "there is no job 'job_nothing'" in message


def test_a_job_that_has_not_succeeded_is_refused(client, submit):
    job_id = submit()["id"]
    pointer, message = refusal(client, model=f"job:{job_id}")
    assert pointer == "/model/pretrained"
    assert f"{job_id} is queued; one that succeeded has weights" in message


def test_a_job_without_a_checkpoint_is_refused(client, submit, worker):
    job_id = submit()["id"]
    assert worker.claim().succeed().status_code == 200
    pointer, message = refusal(client, model=f"job:{job_id}")
    assert pointer == "/model/pretrained"
    assert "has no checkpoint.safetensors any more" in message


def test_another_architecture_is_refused_and_the_same_is_not(client, trained, submit):
    pretrained = f"job:{trained}"
    pointer, message = refusal(client, model={"name": "amdnet", "pretrained": pretrained})
    assert pointer == "/model/name"
    assert "that job trained resnet18 (builtin), not amdnet (builtin)" in message
    pointer, _ = refusal(client, model={"name": "vit", "pretrained": pretrained})
    assert pointer == "/model/source"
    submit(model={"name": "resnet18", "pretrained": pretrained})


def test_a_dry_run_checks_it_too(client):
    body = {"dataset": "builtin:digits", "model": "job:job_nothing"}
    assert client.post("/v1/jobs?dry_run=true", json=body).status_code == 422
