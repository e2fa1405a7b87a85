"""The two commands of docs/containers.md."""

import re

import pytest

from tests.acceptance.stack import ROOT, find_free_address

pytestmark = pytest.mark.acceptance


def test_a_saved_stack_comes_back_on_an_empty_machine(running, build_stack, finished_job, tmp_path):
    job_id = finished_job["id"]
    with (tmp_path / "redkiln.tar").open("wb") as file:
        running.stream("run", "--rm", "-T", "backup", "save", stdout=file)

    other = build_stack("restored", *running.files, REDKILN_BIND=find_free_address("127.0.0.1"))
    with (tmp_path / "redkiln.tar").open("rb") as file:
        other.stream("run", "--rm", "-T", "backup", "restore", stdin=file)
    other.up()
    other.wait_healthy()
    assert other.job(job_id) == finished_job
    (model,) = [each for name, each in other.artifacts(job_id).items() if name == "model.onnx"]
    answer = other.call("GET", f"/v1/artifacts/{model['id']}/content")
    assert len(answer.content) == model["size_bytes"]
    other.wait_for_workers(1)  # with the key of before

    refused = other.compose("run", "--rm", "-T", "backup", "restore", check=False, input="")
    assert refused.returncode == 1
    assert "never overwrites" in refused.stderr


def test_the_documented_commands_are_these():
    text = (ROOT / "docs" / "containers.md").read_text()
    assert re.search(r"backup save > \S+\.tar", text)
    assert re.search(r"backup restore < \S+\.tar", text)
