import pytest

from redkiln.failure import FailureCode, JobFailure
from worker.agent.attempt.finish import decide_outcome
from worker.agent.stopping import StopReason

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
