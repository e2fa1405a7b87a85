"""A claimed job whose spec this worker cannot read fails before anything is prepared for it."""

import time
from collections.abc import Callable

import structlog

from redkiln.failure import JobFailure
from redkiln.protocol import FinishRequest
from worker.agent.backoff import Backoff
from worker.agent.client import AttemptClient, ServiceAway

log = structlog.get_logger(__name__)


def report_refused(
    client: AttemptClient, failure: JobFailure, *, is_out_of_time: Callable[[], bool]
) -> None:
    """Report the attempt as failed.

    Raises:
        ServiceError: The service refused the report.
    """
    log.error("attempt refused", reason=failure.message)
    request = FinishRequest(outcome="failed", last_seq=0, failure=failure, artifacts=[])
    backoff = Backoff()
    while not is_out_of_time():
        try:
            client.finish(request)
        except ServiceAway as error:
            log.warning("service unreachable while an attempt ends; retrying", error=str(error))
            time.sleep(backoff.next_seconds())
        else:
            return
