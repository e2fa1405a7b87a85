"""Rules that delete old jobs and their files."""

import pytest

from service.housekeeping import collect_blobs
from service.usage.retention import delete_old_files, delete_old_jobs


@pytest.fixture
def plan(client):
    def plan(**days):
        answer = client.get("/v1/storage/retention", params=days)
        assert answer.status_code == 200, answer.text
        return {rule["rule"]: rule for rule in answer.json()["rules"]}

    return plan


@pytest.fixture
def finish(submit, worker):
    """Finishes a job with a model file; returns its id."""

    def finish(data=b"onnx"):
        job_id = submit()["id"]
        attempt = worker.claim()
        attempt.finish("succeeded", artifacts=[attempt.artifact("model", "model.onnx", data)])
        return job_id

    return finish


def test_nothing_is_deleted_unless_a_rule_is_set(plan, finish, services, client):
    finish()
    rules = plan()
    assert [rules[name]["days"] for name in ("jobs", "files", "checkpoints")] == [None, None, 7]
    assert all(rule["count"] == 0 for rule in rules.values())
    assert delete_old_jobs(services) == delete_old_files(services) == 0
    assert len(client.get("/v1/jobs").json()["data"]) == 1
    assert client.get("/v1/storage/retention?keep_jobs_days=-1").status_code == 422


def test_the_preview_lists_what_the_rules_then_delete(plan, finish, submit, services, client):
    old = finish(b"x" * 1000)
    waiting = submit()["id"]
    jobs = plan(keep_jobs_days=0)["jobs"]
    assert (jobs["count"], jobs["bytes"], jobs["num_kept"]) == (1, 1000, 0)
    assert [item["id"] for item in jobs["oldest"]] == [old]
    assert plan(keep_jobs_days=1)["jobs"]["count"] == 0
    services.settings.keep_jobs_days = 0
    assert plan()["jobs"] == jobs
    assert delete_old_jobs(services) == 1
    assert [job["id"] for job in client.get("/v1/jobs").json()["data"]] == [waiting]


def test_a_job_without_its_files_keeps_its_record(plan, finish, services, client, job, kinds):
    job_id = finish()
    (file,) = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"]
    services.settings.keep_files_days = 0
    assert plan()["files"]["bytes"] == 4
    assert delete_old_files(services) == 1
    collect_blobs(services)
    assert services.storage.stat(file["sha256"]) is None
    assert client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"] == []
    assert (job(job_id)["status"], kinds(job_id)[-1]) == ("succeeded", "files_deleted")
    assert plan()["files"]["count"] == delete_old_files(services) == 0


def test_what_a_registered_version_or_a_waiting_job_needs_is_kept(
    plan, finish, submit, worker, services, client
):
    registered = finish()
    assert client.post("/v1/models", json={"name": "m", "job": registered}).status_code == 201
    submit()
    attempt = worker.claim()
    weights = attempt.artifact("checkpoint", "checkpoint.safetensors", b"weights")
    attempt.finish("succeeded", artifacts=[weights])
    submit(model=f"job:{attempt.job_id}")
    services.settings.keep_jobs_days = services.settings.keep_files_days = 0
    rules = plan()
    assert [(rules[name]["count"], rules[name]["num_kept"]) for name in ("jobs", "files")] == [
        (0, 2), (0, 2),
    ]  # fmt: skip
    assert delete_old_jobs(services) == delete_old_files(services) == 0
    version = client.get("/v1/models/m@latest/content")
    assert (version.status_code, version.content) == (200, b"onnx")
