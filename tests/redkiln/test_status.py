import itertools
from enum import StrEnum

import pytest

from redkiln.failure import RETRYABLE, FailureCode, JobFailure
from redkiln.status import TRANSITIONS, JobStatus

ALLOWED = {
    ("queued", "running"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("queued", "paused"),
    ("running", "pausing"),
    ("pausing", "queued"),
    ("pausing", "paused"),
    ("pausing", "cancelling"),
    ("pausing", "succeeded"),
    ("pausing", "failed"),
    ("paused", "queued"),
    ("paused", "cancelled"),
    ("failed", "queued"),
    ("cancelled", "queued"),
    ("running", "cancelling"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("cancelling", "succeeded"),
    ("cancelling", "failed"),
    ("cancelling", "cancelled"),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(JobStatus, JobStatus)))
def test_which_status_may_follow_which(old, new):
    assert (new in TRANSITIONS[old]) == ((str(old), str(new)) in ALLOWED)


@pytest.mark.parametrize("status", JobStatus)
def test_a_status_is_terminal_if_no_other_follows_by_itself(status):
    assert status.is_terminal == (status in ("succeeded", "failed", "cancelled"))


@pytest.mark.parametrize("status", JobStatus)
def test_every_job_can_end(status):
    reached = {status}
    for _ in JobStatus:
        reached |= {following for known in reached for following in TRANSITIONS[known]}
    assert any(known.is_terminal for known in reached)


@pytest.mark.parametrize("code", FailureCode)
def test_the_code_decides_whether_a_failure_is_retryable(code):
    failure = JobFailure.of(code, "words", step=3)
    assert failure.retryable == (code in RETRYABLE)
    assert failure.details == {"step": 3}
    assert isinstance(failure.code, StrEnum)
