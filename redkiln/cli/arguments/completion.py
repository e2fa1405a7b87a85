"""Completes names of jobs, data sets, models and files when the user presses Tab in a shell.

A service that does not answer at once completes nothing: a shell must neither wait nor print
errors.
"""

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from redkiln.client import Client
from redkiln.client.connection import RetryPolicy
from redkiln.datasets import BUILTINS
from redkiln.errors import RedkilnError

MAX_JOBS = 100
MAX_FILES = 100

Choice = tuple[str, str]
"""A word and what it means."""


def complete_job(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return the names of jobs that start like this, or their ids after `job_`."""
    return _ask(context, incomplete, lambda client: _list_jobs(client, incomplete))


def complete_dataset(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return the names of data sets that start like this."""
    return _ask(context, incomplete, _list_datasets)


def complete_data(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return data sets, built-in sets and local files that start like this."""
    builtins = [(f"builtin:{name}", "built in") for name in BUILTINS]
    known = [choice for choice in builtins if choice[0].startswith(incomplete)]
    return [*complete_dataset(context, incomplete), *known, *_list_files(incomplete)]


def complete_model(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return the names of registered models that start like this."""
    return _ask(context, incomplete, _list_models)


def complete_reference(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return registered models with their aliases, as in `digits@production`."""
    return _ask(context, incomplete, _list_references)


def complete_runnable(context: typer.Context, incomplete: str) -> list[Choice]:
    """Return jobs, registered models with their aliases, and local files that start like this."""
    models = complete_reference(context, incomplete)
    return [*complete_job(context, incomplete), *models, *_list_files(incomplete)]


def _list_models(client: Client) -> Iterable[Choice]:
    return [(one.name, f"{one.num_versions} versions") for one in client.registered_models()]


def _list_references(client: Client) -> Iterable[Choice]:
    for one in client.registered_models():
        aliases = {**one.aliases, "latest": one.newest_version}
        yield from ((f"{one.name}@{alias}", f"version {v}") for alias, v in aliases.items() if v)


def _list_files(incomplete: str) -> list[Choice]:
    """Return files and folders whose path starts like this; hidden ones only after a dot."""
    head, start = os.path.split(incomplete)
    try:
        names = sorted(path.name for path in Path(head or ".").expanduser().iterdir())
    except OSError:
        return []
    shown = [n for n in names if n.startswith(start) and (start or not n.startswith("."))]
    paths = (os.path.join(head, name) for name in shown[:MAX_FILES])  # noqa: PTH118  as typed
    return [
        (f"{path}/", "folder") if Path(path).expanduser().is_dir() else (path, "file")
        for path in paths
    ]


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
