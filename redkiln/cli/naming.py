"""Which job a person means: its id, the beginning of one, its name, or `last`."""

import itertools
from collections.abc import Iterable

from redkiln.cli.problems import UsageError
from redkiln.client import Client
from redkiln.errors import NotFound
from redkiln.job import JobSummary, JobView

SEARCHED_JOBS = 1000
"""How many of the newest jobs are looked through for a name."""
SHORTEST_PREFIX = 4


def find_job_id(client: Client, named: str) -> str:
    """The id of the job that was named.

    Raises:
        UsageError: none or several are.
    """
    if named.startswith("job_"):
        try:
            return client.job(named).id
        except NotFound:
            pass  # perhaps the beginning of an id
    if named == "last":
        newest = next(client.jobs(limit=1), None)
        if newest is None:
            raise UsageError("There is no job yet. Make one: redkiln train builtin:digits")
        return newest.id
    return choose_job(named, itertools.islice(client.jobs(), SEARCHED_JOBS)).id


def find_dataset_name(client: Client, job: JobView) -> str:
    """The name of a job's data set, also when it is deleted; empty where it reads none."""
    if job.dataset_id is None:
        return ""
    try:
        return client.dataset(job.dataset_id).name
    except NotFound:
        return str(job.spec.get("dataset", job.dataset_id))


def choose_job(named: str, jobs: Iterable[JobSummary]) -> JobSummary:
    """The newest job with this name, else the only one whose id begins so.

    Args:
        named: by the user.
        jobs: the newest first.

    Raises:
        UsageError: none or several are.
    """
    beginning: list[JobSummary] = []
    for job in jobs:
        if job.name == named or job.id == named:
            return job
        if len(named) >= SHORTEST_PREFIX and _begins(job.id, named):
            beginning.append(job)
    if len(beginning) == 1:
        return beginning[0]
    if beginning:
        listed = ", ".join(job.id for job in beginning[:3])
        raise UsageError(f"{len(beginning)} jobs begin with {named!r} ({listed}, …); say more")
    raise UsageError(f"There is no job {named!r}. See `redkiln jobs`; `last` names the newest.")


def _begins(job_id: str, named: str) -> bool:
    return job_id.startswith(named) or job_id.removeprefix("job_").startswith(named)
