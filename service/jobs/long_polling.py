"""Waits until a job has ended, for callers that want one answer instead of a stream."""

import asyncio

from starlette.concurrency import run_in_threadpool

from redkiln.status import JobStatus
from service.jobs.rules import get_job
from service.services import Services

MOST_WAIT_SECONDS = 60.0
"""Longest time that a request waits; proxies close connections that are silent for longer."""


async def wait_for_end(services: Services, job_id: str, *, seconds: float) -> None:
    """Return when the job has ended, the time is over, or the service stops.

    Raises:
        NotFound: There is no such job.
    """
    with services.changes.follow(job_id) as changed:
        try:
            async with asyncio.timeout(seconds):
                while not services.changes.is_closed:
                    changed.clear()
                    if await run_in_threadpool(_has_ended, services, job_id):
                        return
                    await changed.wait()
        except TimeoutError:
            return


def _has_ended(services: Services, job_id: str) -> bool:
    status = services.database.read(lambda session: get_job(session, job_id).status)
    return JobStatus(status).is_terminal
