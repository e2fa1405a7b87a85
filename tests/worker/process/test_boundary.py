"""An error is a failure, but not if a library raised it because the process was asked to stop."""

import pytest

from tests.worker.job_dirs import write_job
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from worker.process.boundary import run_guarded
from worker.process.lifetime import Stopped


def fail_while_stopping(_):
    try:
        raise Stopped
    except Stopped:
        raise ImportError("the module was not initialised")  # noqa: B904 - as C code does


def fail_because_of_a_stop(_):
    try:
        raise Stopped
    except Stopped as stop:
        raise ImportError("the module was not initialised") from stop


def stop(_):
    raise Stopped


def fail(_):
    raise ValueError("a value is wrong")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (lambda _: None, EXIT_DONE),
        (stop, EXIT_STOPPED),
        (fail_while_stopping, EXIT_STOPPED),
        (fail_because_of_a_stop, EXIT_STOPPED),
        (fail, EXIT_FAILED),
    ],
)
def test_a_stop_is_no_failure_even_behind_an_error_of_a_library(tmp_path, body, status):
    job_dir = write_job(tmp_path / "job", {}, dataset=None, cache_dir=tmp_path)
    assert run_guarded(job_dir, job_dir.load_order(), device="cpu", body=body) == status
    assert ("FAILURE" in job_dir.events_path.read_text().upper()) == (status == EXIT_FAILED)
