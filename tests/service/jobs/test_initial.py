"""Jobs that start from the weights of another one."""

from datetime import UTC, datetime

import pytest

from redkiln.tasks import parse_spec
from service.datasets.models import Dataset
from service.jobs.initial import initial_problems
from tests.service.bundles.test_model_files import build_for_engine

WEIGHTS = b"weights of the first job"
CHECKPOINT = {
    "name": "checkpoint.safetensors",
    "kind": "checkpoint",
    "media_type": "application/octet-stream",
}


@pytest.fixture
def train(submit, worker):
    """Run a job that leaves its weights; return its id."""

    def train(name, **spec):
        submitted = submit(**spec)
        attempt = worker.claim()
        resolved = {**submitted["spec"], "model": {**submitted["spec"]["model"], "name": name}}
        said = ("resolved", {"spec": resolved, "environment": {}})
        assert attempt.report(said).status_code == 200
        commit = {**CHECKPOINT, "sha256": attempt.upload(WEIGHTS), "size_bytes": len(WEIGHTS)}
        assert attempt.finish("succeeded", artifacts=[commit]).status_code == 200
        return submitted["id"]

    return train


@pytest.fixture
def trained(train):
    """A job that trained a resnet18."""
    return train("resnet18", model="resnet18")


@pytest.fixture
def sms(services):
    """A table of texts; its id."""
    columns = [{"name": "text", "type": "text"}, {"name": "label", "type": "target"}]
    dataset = Dataset(
        id="ds_sms",
        name="sms",
        status="ready",
        kind="archive",
        task="text-classification",
        sha256="a" * 64,
        index_sha256="b" * 64,
        report={"columns": columns},
        created_at=datetime.now(UTC),
    )
    services.database.write(lambda session: session.add(dataset))
    return "ds_sms"


def refusal(client, **spec):
    response = client.post("/v1/jobs", json={"dataset": "builtin:digits", **spec})
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    return error["pointer"], error["message"]


def test_the_claim_has_the_weights_and_the_worker_may_read_them(client, trained, submit, worker):
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


def test_weights_of_a_deleted_job_are_missing_from_the_claim(client, trained, submit, worker):
    submit(model=f"job:{trained}")
    assert client.delete(f"/v1/jobs/{trained}").status_code == 204
    assert worker.claim().claimed["initial"] is None


def test_an_unknown_job_is_refused(client):
    pointer, message = refusal(client, model="job:job_nothing")
    assert pointer == "/model/pretrained"
    assert "there is no job 'job_nothing'" in message


def test_a_job_that_has_not_succeeded_is_refused(client, submit):
    job_id = submit()["id"]
    pointer, message = refusal(client, model=f"job:{job_id}")
    assert pointer == "/model/pretrained"
    assert f"{job_id} is queued; only a job that succeeded has weights" in message


def test_a_job_without_a_checkpoint_is_refused(client, submit, worker):
    job_id = submit()["id"]
    assert worker.claim().succeed().status_code == 200
    pointer, message = refusal(client, model=f"job:{job_id}")
    assert pointer == "/model/pretrained"
    assert "no longer has its checkpoint.safetensors" in message


def test_another_architecture_is_refused_but_the_same_one_is_accepted(client, trained, submit):
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


def test_a_text_job_starts_from_a_text_job_and_is_tuned_gently(client, train, sms, submit, worker):
    first = train("distilbert", dataset=sms)
    job = submit(dataset=sms, model=f"job:{first}")
    model, training = job["spec"]["model"], job["spec"]["training"]
    assert (model["name"], model["pretrained"]) == ("auto", f"job:{first}")
    assert (training["optimizer"]["lr"], training["epochs"]) == (5e-5, 3)
    assert worker.claim().claimed["initial"]["job_id"] == first
    pretrained = {"name": "bert", "pretrained": f"job:{first}"}
    pointer, message = refusal(client, dataset=sms, model=pretrained)
    assert pointer == "/model/name"
    assert "trained distilbert (transformers), not bert" in message


def test_weights_of_another_task_are_refused(client, train, sms, trained):
    pointer, message = refusal(client, dataset=sms, model=f"job:{trained}")
    assert pointer == "/model/pretrained"
    assert "was trained for image-classification, not for text-classification" in message


@pytest.mark.parametrize("task", ["object-detection", "semantic-segmentation"])
def test_networks_on_the_same_backbone_start_from_a_classifier(services, trained, task):
    spec = parse_spec({"task": task, "dataset": "shapes", "model": f"job:{trained}"})
    problems = services.database.read(lambda session: initial_problems(session, spec, None))
    assert problems == []


def test_a_job_on_a_table_starts_from_one_with_the_same_columns(client, train, submit, worker):
    first = train("mlp", dataset="builtin:wine")
    submit(dataset="builtin:wine", model=f"job:{first}")
    assert worker.claim().claimed["initial"]["job_id"] == first
    pointer, message = refusal(client, dataset="builtin:iris", model=f"job:{first}")
    assert pointer == "/model/pretrained"
    assert f"{first} was trained on the numeric column 'alcohol', which this table lacks" in message
    linear = {"name": "linear", "pretrained": f"job:{first}"}
    pointer, message = refusal(client, dataset="builtin:wine", model=linear)
    assert pointer == "/model/name"
    assert "remove source and name" in message


def test_a_job_trains_the_onnx_file_of_another_one(client, submit, worker):
    submitted = submit()
    attempt = worker.claim()
    model = {"name": "model.onnx", "kind": "model", "media_type": "application/octet-stream"}
    graph = build_for_engine("Softplus").SerializeToString()
    digest = attempt.upload(graph)
    commit = {**model, "sha256": digest, "size_bytes": len(graph), "verified": True}
    assert attempt.finish("succeeded", artifacts=[commit]).status_code == 200
    submit(model={"source": "onnx", "file": f"job:{submitted['id']}", "train": "head"})
    initial = worker.claim().claimed["initial"]
    assert (initial["job_id"], initial["sha256"]) == (submitted["id"], digest)


def test_the_onnx_file_of_a_job_is_checked_at_submission(client, submit, worker):
    worker.hello(packages=["tinygrad"])
    source = submit()["id"]
    attempt = worker.claim()
    graph = build_for_engine("Softplus").SerializeToString()
    unknown = build_for_engine("Fancy").SerializeToString()
    files = [("model.onnx", graph), ("notes.onnx", b"no graph"), ("odd.onnx", unknown)]
    commits = [
        {"name": name, "kind": "file", "media_type": "application/octet-stream",
         "sha256": attempt.upload(content), "size_bytes": len(content)}
        for name, content in files
    ]  # fmt: skip
    assert attempt.finish("succeeded", artifacts=commits).status_code == 200
    trained = {"source": "onnx", "file": f"job:{source}"}
    pointer, message = refusal(client, model=trained, resources={"engine": "tinygrad"})
    assert pointer == "/resources/engine"
    assert "operator Softplus (b); set engine to torch" in message
    pointer, _ = refusal(client, model={**trained, "file": f"job:{source}/notes.onnx"})
    assert pointer == "/model/file"
    pointer, message = refusal(client, model={**trained, "file": f"job:{source}/odd.onnx"})
    assert pointer == "/model/file"
    assert "Fancy" in message


def test_any_onnx_file_of_a_job_can_be_trained(client, submit, worker):
    source = submit()["id"]
    attempt = worker.claim()
    graph = build_for_engine("Relu").SerializeToString()
    file = {"kind": "file", "media_type": "application/octet-stream", "name": "runs/best.onnx"}
    file |= {"sha256": attempt.upload(graph), "size_bytes": len(graph)}
    assert attempt.finish("succeeded", artifacts=[file]).status_code == 200

    submit(model={"source": "onnx", "file": f"job:{source}/runs/best.onnx"})
    initial = worker.claim().claimed["initial"]
    assert initial["sha256"] == file["sha256"]
    gone = {"source": "onnx", "file": f"job:{source}/other.onnx"}
    response = client.post("/v1/jobs", json={"dataset": "builtin:digits", "model": gone})
    (problem,) = response.json()["errors"]
    assert problem["pointer"] == "/model/file"
    assert "there is no other.onnx" in problem["message"]
    odd = {"source": "onnx", "file": f"job:{source}/notes.txt"}
    response = client.post("/v1/jobs", json={"dataset": "builtin:digits", "model": odd})
    assert "the name of an ONNX file of that job" in response.json()["detail"]
