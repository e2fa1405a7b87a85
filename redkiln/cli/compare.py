"""`redkiln compare`: how jobs differ in their specs and results."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import typer
from rich.text import Text

from redkiln.cli.arguments.naming import find_dataset_name, find_job_id
from redkiln.cli.command import Session, command
from redkiln.cli.jobs import JobNames
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.differences import Comparison, Row, compare_jobs
from redkiln.cli.view.panel import status_text
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.run_time import running_seconds
from redkiln.errors import NotFound
from redkiln.views.comparison import Interval, describe_spread
from redkiln.views.job import JobView

SHOWN_DIGITS = 12
"""Digits of a sha256, such as that of a script's code, that a cell shows."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "compare", rich_help_panel="Results", examples=(
        "redkiln compare small large",
        "redkiln compare job_01a job_01b job_01c --json | jq .metrics",
    ))(compare)  # fmt: skip


def compare(session: Session, jobs: JobNames) -> None:
    """Show how jobs differ: the fields of their specs, and their results side by side.

    Specs are compared as the worker resolved them, without fields that no model
    here reads. Folds show the mean and the standard deviation. The best value of a
    metric is printed in bold, unless the jobs were tested on different data. The
    metric that models are judged by has its 95 % interval.
    """
    if len(jobs) < 2:
        raise UsageError("Give at least two jobs to compare: redkiln compare JOB JOB")
    found = [session.client.job(find_job_id(session.client, named)) for named in jobs]
    tested_on = _different_data(session, found)
    compared = compare_jobs(found, is_ranked=not tested_on)
    if session.is_json:
        session.emit(
            {
                "jobs": [job.id for job in found],
                "spec": {row.name: row.values for row in compared.spec},
                "metrics": {row.name: row.values for row in compared.metrics},
                "intervals": {row.name: row.values for row in compared.intervals},
                "folds": {row.name: row.values for row in compared.folds},
            }
        )
        return
    columns = [Column(""), *_job_columns(found)]
    rows = [
        *_facts(session, found),
        *(_line(row, _format_field) for row in compared.spec if row.name != "dataset"),
        *_metric_lines(compared),
        *(_line(replace(row, name=f"folds {row.name}"), describe_spread) for row in compared.folds),
    ]
    print_table(session.out, columns, rows)
    if not compared.spec:
        session.note("Their specs are equal.")
    if tested_on:
        session.note(
            f"The jobs were tested on different data ({', '.join(tested_on)}), so their results "
            "are not ranked."
        )
    for name, places in compared.unsure.items():
        heads = " and ".join(columns[place + 1].head for place in places)
        session.note(
            f"The 95 % intervals of {name} of {heads} overlap, so the test samples do not show "
            "which of them is better."
        )


def _metric_lines(compared: Comparison) -> Iterator[list[Text | str]]:
    intervals = {row.name: row for row in compared.intervals}
    for row in compared.metrics:
        yield _line(row, partial(words.metric, row.name))
        if row.name in intervals:
            ends = replace(intervals[row.name], name="95 % interval")
            yield _line(ends, partial(_format_interval, row.name))


def _format_interval(name: str, ends: Interval) -> str:
    return " to ".join(words.metric(name, end) for end in ends)


def _different_data(session: Session, jobs: list[JobView]) -> list[str]:
    """Return the data sets of the jobs if their contents differ; nothing if they are the same."""
    names: dict[str, str] = {}
    contents: set[str] = set()
    for dataset_id in dict.fromkeys(job.dataset_id for job in jobs if job.dataset_id):
        try:
            view = session.client.dataset(dataset_id)
            names[dataset_id] = view.name
            contents.add(f"{view.sha256} {view.options}" if view.sha256 else dataset_id)
        except NotFound:  # deleted since
            names[dataset_id] = dataset_id
            contents.add(dataset_id)
    if len(contents) < 2:
        return []
    shown = list(names.values())
    return [name if name == key or shown.count(name) == 1 else f"{name} {key}"
            for key, name in names.items()]  # fmt: skip


def _job_columns(jobs: list[JobView]) -> list[Column]:
    names = [job.name for job in jobs]
    heads = [job.name if names.count(job.name) == 1 else job.id for job in jobs]
    return [Column(head, is_right=True, when_narrow="cut") for head in heads]


def _facts(session: Session, jobs: list[JobView]) -> list[list[Text | str]]:
    ran = [running_seconds(job) for job in jobs]
    rows: list[list[Text | str]] = [
        ["status", *(status_text(str(job.status)) for job in jobs)],
        ["ran", *("" if seconds is None else words.duration(seconds) for seconds in ran)],
    ]
    datasets = [find_dataset_name(session.client, job) for job in jobs]
    if len(set(datasets)) > 1:
        rows.insert(1, ["data set", *datasets])
    return rows


def _line(row: Row, say: Callable[[Any], str]) -> list[Text | str]:
    cells = [
        Text("" if value is None else say(value), "bold" if index in row.best else "")
        for index, value in enumerate(row.values)
    ]
    return [Text(row.name, "dim"), *cells]


def _format_field(value: Any) -> str:
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value[:SHOWN_DIGITS]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
