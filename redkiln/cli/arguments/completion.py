"""Completes names of jobs and data sets when the user presses Tab in a shell.

A service that does not answer at once completes nothing: a shell must neither wait nor print
errors.
"""

import itertools
from collections.abc import Callable, Iterable

import typer

from redkiln.client import Client
from redkiln.client.connection import RetryPolicy
from redkiln.errors import RedkilnError

MAX_JOBS = 100

Choice = tuple[str, str]
"""A word and what it means."""


def complete_job(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return the names of jobs that start like this, or their ids after `job_`."""
    return _ask(context, incomplete, lambda client: _list_jobs(client, incomplete))


def complete_dataset(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return the names of data sets that start like this."""
    return _ask(context, incomplete, _list_datasets)


def _list_jobs(client: Client, incomplete: str) -> Iterable[Choice]:
    jobs = itertools.islice(client.jobs(limit=MAX_JOBS), MAX_JOBS)
    if incomplete.startswith("job_"):
        return [(job.id, f"{job.name}, {job.status}") for job in jobs]
    return [("last", "the newest job"), *((job.name, str(job.status)) for job in jobs)]


def _list_datasets(client: Client) -> Iterable[Choice]:
    return [(item.name, str(item.task or item.status)) for item in client.datasets()]


def _ask(
    context: typer.Context, incomplete: str, find: Callable[[Client], Iterable[Choice]]
) -> list[Choice]:
    given = context.find_root().params
    try:
        with Client(given.get("url"), given.get("key"), policy=RetryPolicy(attempts=1)) as client:
            found = dict(reversed([*find(client)]))  # the newest of those with the same name
    except (RedkilnError, ValueError, OSError):
        return []
    return [choice for choice in reversed(found.items()) if choice[0].startswith(incomplete)]
