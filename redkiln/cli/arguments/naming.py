"""Finds the job that the user means: by id, the beginning of an id, name, or `last`."""

import itertools
from collections.abc import Iterable

from redkiln.cli.problems import UsageError
from redkiln.client import Client
from redkiln.errors import NotFound
from redkiln.views.job import JobSummary, JobView

SEARCHED_JOBS = 1000
"""Number of the newest jobs that are searched for a name."""
SHORTEST_PREFIX = 4


def find_job_id(client: Client, named: str) -> str:
    """Return the id of the job that the user named.

    Raises:
        UsageError: No job or several jobs match.
    """
    if named.startswith("job_"):
        try:
            return client.job(named).id
        except NotFound:
            pass  # perhaps the beginning of an id
    if named == "last":
        newest = next(client.jobs(limit=1), None)
        if newest is None:
            raise UsageError("There are no jobs yet. Start one: redkiln train builtin:digits")
        return newest.id
    return choose_job(named, itertools.islice(client.jobs(), SEARCHED_JOBS)).id


def find_dataset_name(client: Client, job: JobView) -> str:
    """Return the name of a job's data set, even if deleted; empty if the job reads none."""
    if job.dataset_id is None:
        return ""
    try:
        return client.dataset(job.dataset_id).name
    except NotFound:
        return str(job.spec.get("dataset", job.dataset_id))


def choose_job(named: str, jobs: Iterable[JobSummary]) -> JobSummary:
    """Return the newest job with this name, else the only job whose id starts with it.

    Args:
        named: Name, id or beginning of an id, as the user wrote it.
        jobs: Jobs, newest first.

    Raises:
        UsageError: No job or several jobs match.
    """
    beginning: list[JobSummary] = []
    alike: list[str] = []
    for job in jobs:
        if job.name == named or job.id == named:
            return job
        if len(named) >= SHORTEST_PREFIX and _begins(job.id, named):
            beginning.append(job)
        if job.name.startswith(named) or job.dataset_name == named:
            alike.append(job.name)
    if len(beginning) == 1:
        return beginning[0]
    if beginning:
        listed = ", ".join(job.id for job in beginning[:3])
        raise UsageError(
            f"The ids of {len(beginning)} jobs start with {named!r} ({listed}, …). Give more "
            "characters."
        )
    hint = f" Did you mean {alike[0]}?" if alike else ""
    raise UsageError(
        f"There is no job {named!r}.{hint} List the jobs: redkiln jobs (`last` means the newest)"
    )


def _begins(job_id: str, named: str) -> bool:
    return job_id.startswith(named) or job_id.removeprefix("job_").startswith(named)
