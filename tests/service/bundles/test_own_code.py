"""Users' own networks at submission: who may send one, and what reading the code shows."""

import hashlib
import io
import tarfile

import pytest

from service.bundles.code_check import find_problems
from service.jobs.models import Job
from service.settings import Settings

NET = """
from torch import nn
from blocks import Other

class Net(nn.Module):
    def __init__(self, num_classes, depth, *, width=4):
        super().__init__()

if nn:
    Late = Net

def loss(logits, targets):
    pass
"""


def pack(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"{name}.py")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def model(name="Net", sha256="0" * 64, **fields):
    own = {"source": "code", "file": "net.py", "class": name, "bundle": sha256}
    return {**own, "arguments": {"depth": 2}, **fields}


@pytest.fixture
def validating(client, services):
    """A data set whose task is not known yet."""
    services.validator.close()
    csv = {"Content-Type": "text/csv"}
    client.post("/v1/datasets", params={"name": "late"}, content=b"a,b\n1,2\n", headers=csv)
    return "late"


def submit(client, content, *, dataset="builtin:digits", **fields):
    sha256 = hashlib.sha256(content).hexdigest()
    spec = {"dataset": dataset, "model": model(sha256=sha256, **fields)}
    return client.post("/v1/jobs", json=spec)


class TestAllowed:
    @pytest.fixture
    def settings(self, state_dir):
        return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, scripts="on")

    def test_a_job_names_sent_code_and_its_claim_offers_it(self, client, worker):
        content = pack(net=NET)
        (problem,) = submit(client, content).json()["errors"]
        assert (problem["pointer"], problem["code"]) == ("/model/bundle", "unknown_bundle")
        sha256 = hashlib.sha256(content).hexdigest()
        assert client.put(f"/v1/bundles/{sha256}", content=content).status_code == 201
        answer = submit(client, content)
        assert answer.status_code == 202
        assert answer.json()["spec"]["model"]["class"] == "Net"
        assert worker.claim().claimed["bundle"]["sha256"] == sha256

    def test_a_job_whose_data_are_being_validated_keeps_its_code(
        self, client, services, validating
    ):
        content = pack(net=NET)
        (problem,) = submit(client, content, dataset=validating).json()["errors"]
        assert problem["code"] == "unknown_bundle"
        sha256 = hashlib.sha256(content).hexdigest()
        client.put(f"/v1/bundles/{sha256}", content=content)
        answer = submit(client, content, dataset=validating)
        assert (answer.status_code, answer.json()["task"]) == (202, "auto")
        job_id = answer.json()["id"]
        assert services.database.read(lambda s: s.get(Job, job_id).bundle_sha256) == sha256

    def test_arguments_may_be_larger_than_one_argument_of_a_process(self, client):
        content = pack(net=NET)
        sha256 = hashlib.sha256(content).hexdigest()
        client.put(f"/v1/bundles/{sha256}", content=content)
        answer = submit(client, content, arguments={"depth": ["a" * 1000] * 140})
        assert answer.status_code == 202

    def test_a_missing_class_is_refused_before_the_job_exists(self, client):
        content = pack(net=NET)
        sha256 = hashlib.sha256(content).hexdigest()
        client.put(f"/v1/bundles/{sha256}", content=content)
        answer = submit(client, content, name="Nett")
        assert answer.status_code == 422
        (problem,) = answer.json()["errors"]
        assert problem["pointer"] == "/model/class"
        assert "did you mean 'Net'" in problem["message"]
        assert client.get("/v1/jobs").json()["data"] == []


def test_own_code_needs_the_scope_of_scripts(client):
    answer = submit(client, pack(net=NET))
    assert answer.status_code == 403
    assert answer.json()["code"] == "scripts_not_allowed"
    assert "own modules" in answer.json()["detail"]


@pytest.fixture
def problems(tmp_path):
    def find(fields, **files):
        path = tmp_path / "bundle.tar"
        path.write_bytes(pack(**(files or {"net": NET})))
        return find_problems(str(path), fields)

    return find


@pytest.mark.parametrize("name", ["Net", "Other", "Late"])
def test_classes_that_a_file_defines_or_imports_are_accepted(problems, name):
    assert problems(model(name)) == []


@pytest.mark.parametrize(
    ("fields", "pointer", "text"),
    [
        (model(file="nte.py"), "/model/file", "did you mean 'net.py'"),
        (model(arguments={}), "/model/arguments", "net.py, line 6: Net needs the argument 'depth'"),
        (model(arguments={"depth": 1, "widht": 2}), "/model/arguments/widht", "'width'"),
        (model(loss="lost"), "/model/loss", "did you mean 'loss'"),
        (model(pretrained="start.pt"), "/model/pretrained", "no file 'start.pt'"),
    ],
)  # fmt: skip
def test_what_reading_shows_is_refused(problems, fields, pointer, text):
    ((where, message),) = problems(fields)
    assert where == pointer
    assert text in message


def test_a_syntax_error_names_its_line(problems):
    ((where, message),) = problems(model(), net="import torch\nclass Net(:\n")
    assert where == "/model/file"
    assert message.startswith("net.py, line 2: ")


def test_a_bundle_that_is_not_a_tar_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"hello")
    assert find_problems(str(tmp_path / "x"), model())[0][0] == "/model/bundle"
