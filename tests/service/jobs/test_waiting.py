"""Jobs that are submitted while their data set is still being validated."""

import time

import pytest

from service import housekeeping
from service.datasets.validator import Validator
from service.jobs.waiting import decide_jobs_of

HOUSES = "\n".join(
    ["rooms,town,price", *(f"{i % 6},{['Oslo', 'Rome'][i % 2]},{100 + i * 3.7}" for i in range(60))]
)


@pytest.fixture
def push(client, services):
    """Push a table and leave it `validating`."""
    services.validator.close()

    def push(content=HOUSES, **params):
        response = client.post(
            "/v1/datasets",
            params={"name": "houses", **params},
            content=content.encode(),
            headers={"Content-Type": "text/csv"},
        )
        assert response.json()["status"] == "validating"
        return response.json()

    return push


@pytest.fixture
def validate(client, services):
    """Validate all data sets, as the service does on its own."""

    def validate(*, on_settled=decide_jobs_of):
        validator = Validator(
            services.database, services.storage, services.settings, on_settled=on_settled
        )
        validator.start()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            rows = client.get("/v1/datasets").json()["data"]
            if all(row["status"] != "validating" for row in rows):
                validator.close()
                return
            time.sleep(0.02)
        raise AssertionError("still validating")

    return validate


def test_a_job_submitted_right_after_a_push_gets_the_task_of_its_data(
    client, push, validate, worker, job, kinds
):
    push()
    response = client.post("/v1/jobs", json={"dataset": "houses", "training": {"epochs": 3}})
    assert response.status_code == 202
    queued = response.json()
    assert (queued["status"], queued["task"]) == ("queued", "auto")
    assert queued["spec"]["training"] == {"epochs": 3}
    assert queued["reason"]["code"] == "dataset_validating"
    assert worker.ask().status_code == 204
    validate()
    decided = job(queued["id"])
    assert (decided["status"], decided["task"]) == ("queued", "tabular-regression")
    assert decided["reason"]["code"] == "waiting"
    assert decided["spec"]["training"]["epochs"] == 3
    assert decided["spec"]["training"]["batch_size"] == "auto"
    assert kinds(queued["id"]) == ["submitted", "data_ready"]
    claimed = worker.claim().claimed
    assert claimed["spec"] == decided["spec"]


def test_the_task_that_was_given_with_the_data_is_known_at_once(client, push):
    push(target="town", task="tabular-classification")
    queued = client.post("/v1/jobs", json={"dataset": "houses"}).json()
    assert queued["task"] == "tabular-classification"


@pytest.mark.parametrize(
    ("spec", "pointer", "words"),
    [
        ({"training": {"class_weights": "balanced"}}, "/training/class_weights", "unknown field"),
        ({"training": {"batch_size": 5000}}, "/training/batch_size", "use at most"),
        ({"model": "resnet18"}, "/model/name", "'mlp'"),
    ],
)
def test_what_the_data_do_not_allow_fails_the_job_with_its_pointer(
    client, push, validate, job, spec, pointer, words
):
    push()
    queued = client.post("/v1/jobs", json={"dataset": "houses", **spec}).json()
    assert queued["status"] == "queued"
    validate()
    failed = job(queued["id"])
    assert (failed["status"], failed["reason"]["code"]) == ("failed", "bad_input")
    assert failed["reason"]["message"].startswith(f"{pointer}: ")
    refused = client.post("/v1/jobs", json={"dataset": "houses", **spec})
    assert refused.json()["detail"] == failed["reason"]["message"]
    assert words in failed["reason"]["message"]


def test_weights_of_another_tasks_job_fail_a_job_when_its_data_are_ready(
    client, push, validate, job, submit
):
    source = submit()["id"]
    push()
    queued = client.post(
        "/v1/jobs", json={"dataset": "houses", "model": {"pretrained": f"job:{source}"}}
    ).json()
    validate()
    assert "was trained for image-classification" in job(queued["id"])["reason"]["message"]


def test_what_no_task_allows_is_refused_at_once(client, push):
    push()
    response = client.post("/v1/jobs", json={"dataset": "houses", "trainig": {}})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/trainig", "unknown_field")


def test_a_dry_run_on_data_that_are_being_validated_says_so(client, push):
    push()
    answer = client.post("/v1/jobs?dry_run=true", json={"dataset": "houses"}).json()
    assert answer["spec"]["task"] == "auto"
    assert answer["unknown"] == ["time and memory: the data set is still being validated"]


def test_a_job_that_was_paused_meanwhile_gets_its_task_in_the_queue(
    client, push, validate, worker, services, job
):
    push()
    job_id = client.post("/v1/jobs", json={"dataset": "houses"}).json()["id"]
    client.post(f"/v1/jobs/{job_id}/pause")
    validate()
    client.post(f"/v1/jobs/{job_id}/resume")
    assert worker.ask().status_code == 204
    assert housekeeping.decide_left_over(services) == 1
    assert housekeeping.decide_left_over(services) == 0
    assert job(job_id)["task"] == "tabular-regression"
    assert worker.claim().job_id == job_id


def test_a_new_version_of_a_data_set_is_used_as_soon_as_it_is_pushed(client, push, validate, job):
    push()
    validate()
    newer = push(target="town")
    queued = client.post("/v1/jobs", json={"dataset": "houses"}).json()
    assert queued["dataset_id"] == newer["id"]
    validate()
    assert job(queued["id"])["task"] == "tabular-classification"
