"""Commands on a job's records: logs, events, metrics."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command, print_json
from redkiln.cli.jobs import JobName
from redkiln.cli.view import words
from redkiln.cli.view.panel import STYLES
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.terminal import print_log
from redkiln.cli.view.watched import describe_event
from redkiln.client import Disconnected, Reconnected
from redkiln.views.job import EventView, JobView
from redkiln.views.metrics import Series, TelemetrySeries

_SPARK_WIDTH = 20
Say = Callable[[str, float], str]
"""Formats a value, given the name of its series."""


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "logs", rich_help_panel="Jobs", examples=(
        "redkiln logs last -f",
        "redkiln logs last --tail 50",
        "redkiln logs flowers --attempt 1",
    ))(logs)  # fmt: skip
    command(app, "events", rich_help_panel="Jobs", examples=(
        "redkiln events last",
        "redkiln events last -f --json | jq .kind",
    ))(events)  # fmt: skip
    command(app, "metrics", rich_help_panel="Jobs", examples=(
        "redkiln metrics last",
        "redkiln metrics last --name val/accuracy --json",
        "redkiln metrics last --telemetry             # GPUs, CPU, memory",
    ))(metrics)  # fmt: skip


def logs(
    session: Session,
    job: JobName,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job ends.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="Print only the last N lines.")
    ] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Attempt number (default: the newest).")
    ] = None,
) -> None:
    """Print what a job's trainer wrote to stdout and stderr."""
    job_id = find_job_id(session.client, job)
    chunks = session.client.logs(job_id, tail=tail, attempt=attempt, follow=is_followed)
    if session.is_json:
        for chunk in chunks:
            print_json({"text": chunk.decode("utf-8", "replace")})
        return
    print_log(chunks)


def events(
    session: Session,
    job: JobName,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job ends.")
    ] = False,
    after_seq: Annotated[
        int, typer.Option("--after", min=0, help="Only events after this sequence number.")
    ] = 0,
) -> None:
    """List a job's events in order.

    With --json, prints one event a line.
    """
    job_id = find_job_id(session.client, job)
    if not is_followed:
        for event in session.client.events(job_id, after_seq=after_seq):
            _print_event(session, event)
        return
    for update in session.client.watch(job_id, after_seq=after_seq):
        if isinstance(update, EventView):
            _print_event(session, update)
        elif isinstance(update, Disconnected):
            session.note(f"connection lost ({update.reason}), reconnecting")
        elif isinstance(update, Reconnected):
            session.note("reconnected")


def metrics(
    session: Session,
    job: JobName,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="Only this series. Repeatable.")
    ] = None,
    max_points: Annotated[
        int, typer.Option("--points", min=3, help="Maximum number of points for each series.")
    ] = 500,
    is_telemetry: Annotated[
        bool, typer.Option("--telemetry", help="Show GPU and host sensors instead of metrics.")
    ] = False,
) -> None:
    """Show how a job's metrics developed, or its hardware sensors with --telemetry."""
    job_id = find_job_id(session.client, job)
    series: Sequence[Series | TelemetrySeries] = (
        session.client.telemetry(job_id, names=names, max_points=max_points)
        if is_telemetry
        else session.client.metrics(job_id, names=names, max_points=max_points)
    )
    if session.is_json:
        session.emit(series)
    elif not series:
        session.note(_explain_nothing(session.client.job(job_id), is_telemetry=is_telemetry))
    else:
        _print_series(session, series, say=words.reading if is_telemetry else words.metric)


def _explain_nothing(job: JobView, *, is_telemetry: bool) -> str:
    yet = "" if job.is_terminal else " yet"
    if is_telemetry:
        return f"No telemetry{yet}."
    if job.task != "script":
        return f"No metrics{yet}."
    return (
        f"No metrics{yet}. A script reports them by redkiln.log(step=step, loss=loss), or by lines "
        r"of its output: redkiln run --set script.metrics_pattern='loss: (?P<loss>[0-9.]+)' -- ..."
    )


def _print_event(session: Session, event: EventView) -> None:
    if session.is_json:
        print_json(event)
        return
    for line in describe_event(event):
        text = Text.assemble(
            (f"{event.seq:>5}  ", "dim"),
            (f"{event.at.astimezone():%H:%M:%S}  ", "dim"),
            (line.text, STYLES[line.tone]),
        )
        session.say(text)


def _print_series(
    session: Session, series: Sequence[Series | TelemetrySeries], *, say: Say
) -> None:
    columns = (
        Column("series", when_narrow="cut"),
        Column("points", is_right=True),
        Column("first", is_right=True),
        Column("last", is_right=True),
        Column("lowest", is_right=True),
        Column("highest", is_right=True),
        Column("course", when_narrow="drop"),
    )
    rows = [row for item in series if (row := _series_row(item, say))]
    print_table(session.out, columns, rows)


def _series_row(item: Series | TelemetrySeries, say: Say) -> tuple[str, ...] | None:
    values = [value for value in item.values if value is not None]
    if not values:
        return None
    shown = (values[0], values[-1], min(values), max(values))
    numbers = (say(item.name, value) for value in shown)
    course = words.sparkline(values, _SPARK_WIDTH)
    return (item.name, words.count(item.num_points), *numbers, course)
