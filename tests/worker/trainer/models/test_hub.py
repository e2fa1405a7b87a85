import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import safetensors.torch
import torch
from huggingface_hub import constants

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import (
    PINNED_POINTER,
    TOKENIZER,
    check_pinned,
    fetch_pretrained,
    find_weights,
    parse_reference,
)

COMMIT, NEWER = "c" * 40, "d" * 40


def tiny_files():
    return {
        "config.json": json.dumps({"model_type": "resnet"}).encode(),
        "model.safetensors": safetensors.torch.save({"weight": torch.ones(3)}),
        "pytorch_model.bin": b"a pickle",
        "modeling_custom.py": b"raise SystemExit",
        "tokenizer.json": b"{}",
    }


class FakeHub:
    """Speaks as much of the hub's protocol as a download needs, and notes what it was asked for."""

    def __init__(self, repositories):
        self.repositories = repositories
        self.asked = []
        self.breaks_off_in = None
        self.commits = {"main": COMMIT, "v1": COMMIT, COMMIT: COMMIT}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self, with_body=True)

            def do_HEAD(self):
                hub.answer(self, with_body=False)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request, *, with_body):
        path = request.path.partition("?")[0].strip("/")
        self.asked.append(path)
        status, body, headers = self._find(path)
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if with_body and self.breaks_off_in and path.endswith(self.breaks_off_in):
            request.wfile.write(body[:-1])
            request.close_connection = True
        elif with_body:
            request.wfile.write(body)

    def _find(self, path):
        parts = path.split("/")
        if parts[:2] == ["api", "models"]:
            name, rest = "/".join(parts[2:4]), parts[4:]
            files = self.repositories.get(name)
            if files is None:
                return 404, b"{}", {"X-Error-Code": "RepoNotFound"}
            commit = self.commits.get(rest[1] if rest else "main")
            if commit is None:
                return 404, b"{}", {"X-Error-Code": "RevisionNotFound"}
            if rest and rest[0] == "tree":
                tree = [
                    {"type": "file", "path": file, "size": len(content), "oid": "0" * 40}
                    for file, content in files.items()
                ]
                return 200, json.dumps(tree).encode(), {"Content-Type": "application/json"}
            siblings = [{"rfilename": file} for file in files]
            body = json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()
            return 200, body, {"Content-Type": "application/json"}
        name, file = "/".join(parts[:2]), "/".join(parts[4:])
        content = self.repositories[name].get(file)
        if content is None:
            return 404, b"", {"X-Error-Code": "EntryNotFound"}
        return 200, content, {"ETag": f'"{file}"', "X-Repo-Commit": self.commits[parts[3]]}


@pytest.fixture
def hub(monkeypatch):
    hub = FakeHub({"org/tiny": tiny_files(), "org/pickled": {"config.json": b"{}", "a.bin": b""}})
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    yield hub
    hub.close()


@pytest.fixture
def fetch(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    said = []

    def run(name, **wanted):
        return fetch_pretrained(
            name,
            models_dir=tmp_path / "models",
            cache_dir=tmp_path / "cache",
            say=said.append,
            **wanted,
        )

    run.said = said
    return run


def put(folder, *names):
    folder.mkdir(parents=True)
    for name, content in tiny_files().items():
        if name in (names or ("config.json", "model.safetensors")):
            (folder / name).write_bytes(content)
    return folder


def failure_of(fetch, name):
    with pytest.raises(TrainingFailed) as caught:
        fetch(name)
    return caught.value.failure


def test_the_models_folder_is_searched_before_the_hub(fetch, tmp_path, hub):
    folder = put(tmp_path / "models" / "org" / "tiny")
    found = fetch("org/tiny")
    assert found.folder == folder
    assert found.weights == (folder / "model.safetensors",)
    assert found.revision is None
    assert not hub.asked
    assert not fetch.said


def test_an_absolute_path_must_be_in_the_models_folder(fetch, tmp_path):
    folder = put(tmp_path / "models" / "mine")
    assert fetch(str(folder)).folder == folder
    outside = put(tmp_path / "elsewhere")
    for name in (str(outside), "../elsewhere"):
        failure = failure_of(fetch, name)
        assert failure.code is FailureCode.BAD_INPUT
        assert "not in the worker's models folder" in failure.message
        assert failure.details["pointer"] == "/model/pretrained"


def test_a_model_is_downloaded_once_without_pickles_or_code(fetch, tmp_path, hub):
    found = fetch("org/tiny@v1")
    assert found.revision == COMMIT
    assert {path.name for path in found.folder.iterdir()} == {"config.json", "model.safetensors"}
    assert safetensors.torch.load_file(found.weights[0])["weight"].tolist() == [1.0, 1.0, 1.0]
    assert found.folder.is_relative_to(tmp_path / "cache" / "hub")
    assert fetch.said == ["downloading org/tiny@v1 from the hub"]
    hub.close()
    assert fetch("org/tiny@v1") == found
    assert len(fetch.said) == 1


def test_a_pinned_commit_is_downloaded_even_if_the_branch_moved(fetch, hub):
    hub.commits |= {"main": NEWER, NEWER: NEWER}
    assert fetch("org/tiny", pinned=COMMIT).revision == COMMIT
    assert fetch("org/tiny").revision == NEWER
    assert fetch("org/tiny@main", pinned=COMMIT).revision == COMMIT


def test_a_folder_is_used_for_a_pinned_commit_with_a_message(fetch, tmp_path, hub):
    folder = put(tmp_path / "models" / "org" / "tiny")
    assert fetch("org/tiny", pinned=COMMIT).folder == folder
    assert f"whether it is commit {COMMIT} cannot be checked" in fetch.said[0]


def test_an_error_says_where_an_unknown_commit_is_named(hub, fetch):
    with pytest.raises(TrainingFailed) as caught:
        fetch("org/tiny", pinned=NEWER)
    assert "model.initial_weights" in caught.value.failure.message


def test_weights_other_than_the_pinned_ones_are_refused():
    check_pinned(None, "sha256 1", name="mine")
    check_pinned("sha256 1", "sha256 1", name="mine")
    check_pinned(COMMIT, "sha256 1", name="mine")  # a folder says nothing of commits
    with pytest.raises(TrainingFailed) as caught:
        check_pinned("sha256 1", "sha256 2", name="mine")
    failure = caught.value.failure
    assert failure.details["pointer"] == PINNED_POINTER
    assert "the spec needs mine at sha256 1, but this worker has sha256 2" in failure.message


def test_a_shared_hub_cache_is_used_if_it_exists(fetch, tmp_path, hub):
    (tmp_path / "home").mkdir()
    assert fetch("org/tiny").folder.is_relative_to(tmp_path / "home" / "hub")


def test_a_tokeniser_is_downloaded_if_requested(fetch, hub):
    found = fetch("org/tiny", also=TOKENIZER)
    assert (found.folder / "tokenizer.json").exists()


def test_an_interrupted_download_is_reported_and_can_be_retried(fetch, tmp_path, hub, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)  # between the library's own tries
    hub.breaks_off_in = "model.safetensors"
    failure = failure_of(fetch, "org/tiny")
    assert failure.code is FailureCode.MODEL_UNAVAILABLE
    assert "the download of org/tiny was interrupted" in failure.message
    assert str(tmp_path / "models" / "org" / "tiny") in failure.message
    hub.breaks_off_in = None
    assert find_weights(fetch("org/tiny").folder)


def test_an_unreachable_hub_error_names_the_folder_for_the_files(fetch, tmp_path, hub):
    hub.close()
    failure = failure_of(fetch, "org/tiny")
    assert failure.code is FailureCode.MODEL_UNAVAILABLE
    assert not failure.retryable
    assert str(tmp_path / "models" / "org" / "tiny") in failure.message
    assert "config.json, model.safetensors" in failure.message
    assert "hf download org/tiny" in failure.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/unknown", "the hub has no model 'org/unknown'"),
        ("org/tiny@v9", "org/tiny has no revision 'v9'"),
        ("org/pickled", "no model.safetensors (pickled weights are not read"),
        ("a/b/c", "use org/name, org/name@revision"),
        ("org/tiny@", "use org/name, org/name@revision"),
    ],
)
def test_an_unavailable_model_is_bad_input(fetch, hub, name, message):
    failure = failure_of(fetch, name)
    assert failure.code is FailureCode.BAD_INPUT
    assert message in failure.message


def test_weights_in_parts_are_all_found(tmp_path):
    for number in (2, 1):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").touch()
    assert [path.name[:11] for path in find_weights(tmp_path)] == ["model-00001", "model-00002"]
    assert parse_reference("gpt2").repository == "gpt2"
