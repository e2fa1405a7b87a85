"""`redkiln models` against the real service."""

import json

import pytest
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from tests.redkiln.predict.models import save_moods


@pytest.fixture
def redkiln(client):
    def redkiln(*arguments):
        url = ["--url", str(client.base_url)]
        return CliRunner().invoke(build_app(), [*map(str, arguments), *url])

    return redkiln


@pytest.fixture
def published(client, worker, submit, tmp_path):
    """The id of a job with a real model."""
    save_moods(tmp_path / "model")
    job_id = submit()["id"]
    attempt = worker.claim()
    kinds = {"model.onnx": "model", "manifest.json": "manifest", "tokenizer.json": "file"}
    commits = []
    for name, kind in kinds.items():
        content = (tmp_path / "model" / name).read_bytes()
        commit = {"kind": kind, "name": name, "media_type": "application/octet-stream"}
        sizes = {"sha256": attempt.upload(content), "size_bytes": len(content)}
        commits.append({**commit, **sizes, "verified": True if kind == "model" else None})
    assert attempt.finish("succeeded", artifacts=commits).status_code == 200
    return job_id


def test_a_model_is_registered_named_used_and_deleted(redkiln, published, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = redkiln("models", "register", "moods", published, "--alias", "production")
    assert (done.exit_code, done.stdout) == (0, "moods has version 1\n")
    assert redkiln("models", "register", "moods", "last").exit_code == 0
    assert "production = 1" in redkiln("models").stdout
    shown = redkiln("models", "show", "moods").stdout
    assert published in shown
    assert "builtin:digits" in shown
    moved = redkiln("models", "alias", "moods", "production", "2")
    assert moved.stdout == "moods@production is version 2\n"
    answer = redkiln("predict", "moods@production", "good", "--json")
    assert json.loads(answer.stdout)["predictions"][0]["class"] == "happy"
    target = tmp_path / "own.onnx"
    assert redkiln("models", "download", "moods@1", "-o", target).exit_code == 0
    assert target.read_bytes() == (tmp_path / "model" / "model.onnx").read_bytes()
    refused = redkiln("models", "delete", "moods", "2")
    assert refused.exit_code != 0
    assert "is production" in refused.stderr
    assert redkiln("models", "unalias", "moods", "production").exit_code == 0
    assert redkiln("models", "delete", "moods", "--all").exit_code == 0
    assert json.loads(redkiln("models", "--json").stdout) == []


def test_a_reference_without_an_alias_is_explained(redkiln):
    done = redkiln("models", "download", "moods")
    assert done.exit_code == 2
    assert "moods@latest" in done.stderr
