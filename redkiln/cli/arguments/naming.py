"""Finds the job that the user means: by id, its beginning, name, its stem, or `last`."""

import itertools
from collections.abc import Iterable

from redkiln.cli.problems import UsageError
from redkiln.client import Client
from redkiln.errors import NotFound
from redkiln.views.job import JobSummary, JobView

SEARCHED_JOBS = 1000
"""Number of the newest jobs that are searched for a name."""
SHORTEST_PREFIX = 4
SUFFIX = 6
"""Characters of its id at the end of a job's default name."""


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
    """Return the newest job with this name, else the only one that it abbreviates.

    Args:
        named: As the user wrote it: a name or an id; the beginning of an id; or a default name
            without its last characters, which are those of the id (`flowers` for `flowers-k3x9a1`).
        jobs: Jobs, newest first.

    Raises:
        UsageError: No job or several jobs match.
    """
    beginning: list[JobSummary] = []
    stems: list[JobSummary] = []
    alike: list[str] = []
    for job in jobs:
        if job.name == named or job.id == named:
            return job
        if len(named) >= SHORTEST_PREFIX and _begins(job.id, named):
            beginning.append(job)
        if job.name == f"{named}-{job.id[-SUFFIX:]}":
            stems.append(job)
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
    if len(stems) == 1:
        return stems[0]
    if stems:
        listed = ", ".join(job.name for job in stems[:3]) + (", …" if len(stems) > 3 else "")
        raise UsageError(
            f"{len(stems)} jobs are called {named}-… ({listed}). Give the whole name, or `last` "
            "for the newest job of all."
        )
    hint = f" Did you mean {alike[0]}?" if alike else ""
    raise UsageError(
        f"There is no job {named!r}.{hint} List the jobs: redkiln jobs (`last` means the newest)"
    )


def _begins(job_id: str, named: str) -> bool:
    return job_id.startswith(named) or job_id.removeprefix("job_").startswith(named)
