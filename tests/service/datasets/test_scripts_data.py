"""Scripts that read an upload which its validation has refused."""

import pytest

from service import housekeeping
from service.settings import Settings

MIXED = "km,temp_c\n" + "".join(f"{n},{n}.5\n" for n in range(100)) + '3,"22,2"\n' * 9


@pytest.fixture
def settings(state_dir):
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, scripts="on")


@pytest.fixture
def refused(client, settled):
    """A table with a column of mixed types; its view."""
    pushed = client.post(
        "/v1/datasets",
        params={"name": "rides", "target": "km"},
        content=MIXED.encode(),
        headers={"Content-Type": "text/csv"},
    )
    view = settled(client, pushed.json()["id"])
    assert view["status"] == "invalid"
    return view


@pytest.fixture
def run(client):
    """Submit a script on a data set; the answer."""

    def run(dataset):
        script = {"command": ["python", "train.py", "{data}"]}
        spec = {"task": "script", "script": script, "dataset": dataset}
        return client.post("/v1/jobs", json=spec)

    return run


def test_a_script_gets_the_bytes_that_were_uploaded(client, refused, run, worker, services):
    queued = run("rides")
    assert queued.status_code == 202, queued.text
    (warning,) = queued.json()["warnings"]
    assert warning["code"] == "dataset_refused"
    assert housekeeping.fail_jobs_of_invalid_datasets(services) == 0
    attempt = worker.claim()
    assert attempt.claimed["dataset"]["id"] == refused["id"]
    sent = client.get(f"/v1/attempts/{attempt.id}/dataset", headers=attempt.headers)
    assert sent.text == MIXED


def test_other_tasks_cannot_use_it(client, refused):
    spec = {"dataset": "rides", "task": "tabular-regression"}
    answer = client.post("/v1/jobs", json=spec)
    assert answer.status_code == 422
    assert [error["code"] for error in answer.json()["errors"]] == ["invalid_dataset"]


def test_a_waiting_script_starts_when_its_data_set_turns_out_invalid(
    client, services, settled, run, worker
):
    pushed = client.post(
        "/v1/datasets",
        params={"name": "corpus"},
        content=b"\0broken",
        headers={"Content-Type": "application/octet-stream"},
    ).json()
    queued = run(pushed["id"]).json()
    settled(client, pushed["id"])
    assert worker.claim().job_id == queued["id"]


def test_a_data_set_that_a_script_reads_is_not_offered_for_deletion(client, refused, run):
    def free_bytes():
        kinds = client.get("/v1/storage").json()["kinds"]
        return next(kind["freeable_bytes"] for kind in kinds if kind["kind"] == "datasets")

    assert free_bytes() > 0
    run("rides")
    assert free_bytes() == 0
