"""Packages of a script's own through the real queue, from its bundle alone: nothing is fetched."""

import importlib.metadata

import pytest

from redkiln.client.bundle import open_bundle
from redkiln.status import JobStatus
from tests.wheels import WHEEL, write_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def run(scripts, tmp_path):
    """The job that ended, of a script that needs a package of its bundle."""

    def run(code, *, needs=()):
        write_wheel(tmp_path / WHEEL, needs)
        script = {
            "command": ["python", "-c", code],
            "bundle": scripts.client.push_bundle(open_bundle(tmp_path).package),
            "requirements": ["--no-index", f"./{WHEEL}"],
        }
        job_id = scripts.client.submit({"task": "script", "script": script}).id
        return scripts.wait_for_end(job_id, seconds=120)

    return run


def test_the_bundles_package_is_used_with_the_workers_torch(scripts, run):
    code = "import tiny_own, torch; print('has', tiny_own.VERSION, torch.__version__)"
    logs = []
    for _ in range(2):
        job = run(code)
        log = b"".join(scripts.client.logs(job.id)).decode()
        assert job.status is JobStatus.SUCCEEDED, log
        assert f"has 1.0 {importlib.metadata.version('torch')}" in log
        logs.append(log)
    assert "installing --no-index" in logs[0]
    assert "reusing the environment" in logs[1]


def test_a_package_that_needs_another_torch_is_refused(run):
    job = run("print('never')", needs=["torch==1.0"])
    assert job.status is JobStatus.FAILED
    assert job.reason.code == "bad_input"
    assert "torch==1.0" in job.reason.message
    assert "is never replaced" in job.reason.message
