import json

import pytest

from service.jobs.submit import default_name

SPEC = {"dataset": "builtin:digits"}


def test_the_shortest_spec_is_queued_with_every_default(client):
    response = client.post("/v1/jobs", json=SPEC)
    job = response.json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert job["status"] == "queued"
    assert job["is_terminal"] is False
    assert job["queue_position"] == 1
    assert job["reason"]["code"] == "no_live_worker"
    assert job["task"] == "image-classification"
    assert job["spec"]["training"]["epochs"] == 10
    assert job["spec"]["training"]["batch_size"] == "auto"
    assert job["name"].startswith("digits-")
    assert client.get(f"/v1/jobs/{job['id']}").json() == job


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("builtin:digits", "digits-abcdef"),
        ("相片 2025", "相片-2025-abcdef"),
        ("旅行アンケート", "旅行アンケート-abcdef"),
        ("!?", "job-abcdef"),
    ],
)
def test_a_job_is_named_after_its_data_set_in_any_script(subject, name):
    assert default_name(subject, "job_01abcdef") == name


@pytest.mark.parametrize("model", ["tabm", "resnet18"])
def test_an_unknown_data_set_is_the_only_mistake_of_a_spec_for_any_task(client, model):
    response = client.post("/v1/jobs", json={"dataset": "nothing", "model": model})
    assert response.status_code == 422
    errors = [(error["pointer"], error["code"]) for error in response.json()["errors"]]
    assert errors == [("/dataset", "unknown_dataset")]


def test_a_job_without_a_data_set_is_named_after_its_task(client):
    response = client.post("/v1/jobs", json={"task": "benchmark"})
    job = response.json()
    assert response.status_code == 202
    assert (job["task"], job["dataset_id"]) == ("benchmark", None)
    assert job["name"].startswith("benchmark-")
    assert "dataset" not in job["spec"]
    assert client.get(f"/v1/jobs/{job['id']}").json() == job
    assert client.get("/v1/jobs").json()["data"][0]["dataset_id"] is None
    (submitted,) = client.get(f"/v1/jobs/{job['id']}/events").json()["data"]
    assert "dataset_id" not in submitted["data"]


def test_a_dry_run_without_a_data_set_shows_none(client):
    answer = client.post("/v1/jobs?dry_run=true", json={"task": "benchmark"}).json()
    assert answer["dataset_id"] is None
    assert answer["spec"]["measure"]["sizes"] == "auto"


def test_a_data_set_for_a_task_without_one_is_a_single_problem(client):
    body = {"task": "benchmark", "dataset": "nowhere"}
    (error,) = client.post("/v1/jobs", json=body).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/dataset", "unknown_field")


def test_a_dry_run_fills_in_defaults_and_creates_nothing(client):
    response = client.post("/v1/jobs?dry_run=true", json={**SPEC, "model": "resnet18"})
    assert response.status_code == 200
    answer = response.json()
    assert answer["spec"]["model"]["name"] == "resnet18"
    assert [warning["code"] for warning in answer["warnings"]] == ["no_live_worker"]
    assert client.get("/v1/jobs").json()["data"] == []


def test_repeating_a_submission_under_its_key_returns_the_same_job(client):
    headers = {"Idempotency-Key": "once"}
    first = client.post("/v1/jobs", json={**SPEC, "priority": 1}, headers=headers)
    again = client.post("/v1/jobs", content=b'{"priority":1, "dataset":"builtin:digits"}',
                        headers={**headers, "Content-Type": "application/json"})  # fmt: skip
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert len(client.get("/v1/jobs").json()["data"]) == 1


def test_a_key_cannot_be_used_for_another_body(client):
    headers = {"Idempotency-Key": "once"}
    client.post("/v1/jobs", json=SPEC, headers=headers)
    response = client.post("/v1/jobs", json={**SPEC, "priority": 2}, headers=headers)
    assert response.status_code == 422
    assert response.json()["code"] == "idempotency_key_reused"


def test_a_refused_submission_does_not_use_up_its_key(client):
    headers = {"Idempotency-Key": "once"}
    assert client.post("/v1/jobs", json={"dataset": "no"}, headers=headers).status_code == 422
    assert client.post("/v1/jobs", json=SPEC, headers=headers).status_code == 202


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({}, "/dataset", "required"),
        ([], "", "an object"),
        ("digits", "", "an object"),
        (None, "", "an object"),
        ({"dataset": 7}, "/dataset", "text"),
        ({"dataset": "builtin:digit"}, "/dataset", "did you mean 'builtin:digits'"),
        ({"dataset": "\x00\ud800"}, "/dataset", ""),
        ({**SPEC, "task": "image-clasification"}, "/task", "image-classification"),
        ({**SPEC, "trainig": {}}, "/trainig", "did you mean 'training'"),
        ({**SPEC, "training": {"epochs": 0}}, "/training/epochs", "at least 1"),
        ({**SPEC, "training": {"epochs": "3"}}, "/training/epochs", "whole number"),
        (
            {**SPEC, "training": {"batch_size": 5000}},
            "/training/batch_size",
            "use at most 1458, or auto",
        ),
        ({**SPEC, "training": {"optimizer": {"lr": 1e999}}}, "/training/optimizer/lr", ""),
        ({**SPEC, "model": "resnet19"}, "/model/name", "resnet18"),
        ({**SPEC, "metadata": {"a": 1}}, "/metadata/a", "text"),
        ({**SPEC, "priority": 10**30}, "/priority", ""),
    ],
)
def test_a_problem_is_reported_with_its_place_and_what_is_allowed(client, body, pointer, words):
    response = client.post(
        "/v1/jobs", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    problem = response.json()
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"
    assert problem["request_id"] == response.headers["X-Request-Id"]
    found = {error["pointer"]: error["message"] for error in problem["errors"]}
    assert words in found[pointer]


def test_all_problems_are_reported_together(client):
    body = {"dataset": "nowhere", "modl": 1, "training": {"epochs": 0}}
    errors = client.post("/v1/jobs", json=body).json()["errors"]
    assert {error["pointer"] for error in errors} == {"/dataset", "/modl", "/training/epochs"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"dataset":\n  x}', "expecting value at line 2, column 3"),
        (b"\xff\xfe", "send it as UTF-8"),
        (b'{"dataset": "\xe4"}', "invalid utf-8 at byte 13"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"dataset": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/datasets"])
def test_invalid_json_is_refused_with_the_place_of_the_error(client, path, content, words):
    response = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "malformed_json"
    assert words in problem["detail"]
    assert [(error["code"], error["message"]) for error in problem["errors"]] == [
        ("malformed_json", problem["detail"])
    ]


def test_a_document_over_the_limit_is_refused(client):
    response = client.post(
        "/v1/jobs", content=b" " * 2_000_000, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_spec_that_is_not_json_is_refused(client):
    response = client.post(
        "/v1/jobs", content=b"dataset: a", headers={"Content-Type": "application/yaml"}
    )
    assert response.status_code == 415


@pytest.mark.parametrize(
    ("resources", "pointer"),
    [({"device": "gpu"}, "/resources/device"), ({"device": "gpu", "arch": ["gfx942"]}, None)],
)
def test_a_job_that_no_live_worker_could_run_is_refused(client, worker, resources, pointer):
    response = client.post("/v1/jobs", json={**SPEC, "resources": resources})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == (pointer or "/resources/device")


def test_a_gpu_architecture_that_no_live_worker_has_is_refused(client, worker):
    worker.gpus = [{"index": 0, "name": "RX 7900", "arch": "gfx1100"}]
    worker.hello()
    refused = client.post("/v1/jobs", json={**SPEC, "resources": {"arch": ["gfx942"]}})
    assert refused.json()["errors"][0]["pointer"] == "/resources/arch"
    taken = client.post("/v1/jobs", json={**SPEC, "resources": {"arch": ["gfx1100"]}})
    assert taken.status_code == 202


def test_a_model_whose_packages_no_live_worker_has_is_refused(client, worker):
    spec = {**SPEC, "model": "timm:resnet18"}
    worker.hello(packages=[])
    refused = client.post("/v1/jobs", json=spec)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/model/source"
    worker.hello(packages=["timm", "torchvision"])
    assert client.post("/v1/jobs", json=spec).status_code == 202


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, ["gpu_unused"]),
        ({"resources": {"engine": "torch"}}, []),
        ({"training": {"precision": "bf16"}}, []),  # tinygrad could not train it
    ],
)
def test_a_job_that_will_train_on_a_cpu_is_told_of_a_vulkan_device(client, worker, changes, codes):
    worker.hello(packages=["tinygrad"])
    answer = client.post("/v1/jobs", json={**SPEC, **changes}).json()
    assert [warning["code"] for warning in answer["warnings"]] == codes


@pytest.mark.parametrize(
    ("training", "told", "pointer"),
    [
        ({"compile": "default"}, {"packages": []}, "/training/compile"),
        ({"compile": "default"}, {"packages": ["compiler"]}, None),
        ({"precision": "bf16"}, {"has_bf16": False}, "/training/precision"),
        ({"precision": "bf16"}, {"has_bf16": True}, None),
    ],
)
def test_what_no_live_worker_can_do_is_refused(client, worker, training, told, pointer):
    arch = {"index": 0, "name": "RX 6800", "arch": "gfx1030", "has_bf16": told.get("has_bf16")}
    worker.gpus = [arch]
    worker.hello(packages=told.get("packages"))
    answer = client.post("/v1/jobs", json={**SPEC, "training": training})
    assert answer.status_code == (202 if pointer is None else 422)
    if pointer:
        assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


def test_a_full_disk_refuses_new_jobs(client, services, monkeypatch):
    object.__setattr__(services.settings, "min_free_bytes", 2**60)
    response = client.post("/v1/jobs", json=SPEC)
    assert response.status_code == 507
    assert response.json()["code"] == "storage_full"
