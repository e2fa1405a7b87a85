import json

import pytest

from redkiln.failure import FailureCode, JobFailure
from worker.agent.attempt.artifacts import list_files, refuse_list
from worker.agent.attempt.finish import decide_outcome
from worker.agent.stopping import StopReason
from worker.jobdir import JobDir

FAILURE = JobFailure.of(FailureCode.CRASHED, "x")
BUSY = JobFailure.of(FailureCode.GPU_BUSY, "x")


@pytest.mark.parametrize(
    ("failure", "reason", "outcome"),
    [
        (None, None, "succeeded"),
        (None, StopReason.SHUTDOWN, "succeeded"),
        (None, StopReason.TOO_LONG, "succeeded"),
        (None, StopReason.CANCELLED, "cancelled"),
        (FAILURE, None, "failed"),
        (FAILURE, StopReason.STALLED, "failed"),
        (FAILURE, StopReason.TOO_LONG, "failed"),
        (FAILURE, StopReason.REFUSED, "failed"),
        (FAILURE, StopReason.SHUTDOWN, "released"),
        (None, StopReason.PAUSED, "succeeded"),
        (FAILURE, StopReason.PAUSED, "paused"),
        (FAILURE, StopReason.CANCELLED, "cancelled"),
        (BUSY, None, "released"),
        (BUSY, StopReason.CANCELLED, "cancelled"),
    ],
)
def test_the_requested_stop_decides_the_outcome(failure, reason, outcome):
    assert decide_outcome(failure, reason) == outcome


@pytest.fixture
def jobdir(tmp_path):
    jobdir = JobDir(tmp_path / "job")
    jobdir.out_dir.mkdir(parents=True)
    jobdir.log_path.write_text("a log")
    (tmp_path / "worker.key").write_text("secret")
    return jobdir


def list_one(jobdir, **fields):
    item = {"name": "key.md", "kind": "report", "media_type": "text/markdown", **fields}
    jobdir.outputs_path.write_text(json.dumps([item]))


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "../worker.key"},
        {"path": "out/../../worker.key"},
        {"path": "/etc/hostname"},
        {"path": "out/a\0b"},
        {"name": "../../worker.key"},
        {"kind": "secret"},
    ],
)
def test_a_list_with_files_outside_the_job_is_refused(jobdir, fields):
    list_one(jobdir, **fields)
    assert refuse_list(jobdir).code == FailureCode.BAD_INPUT
    assert [output.name for _, output in list_files(jobdir)] == ["trainer.log"]


def test_a_link_is_not_published(jobdir, tmp_path):
    list_one(jobdir)
    (jobdir.out_dir / "key.md").symlink_to(tmp_path / "worker.key")
    assert refuse_list(jobdir) is None
    assert [output.name for _, output in list_files(jobdir)] == ["trainer.log"]
