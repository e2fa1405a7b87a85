"""Everything about a job, as one page of text."""

from datetime import UTC, datetime
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.advice.wording import as_options
from redkiln.cli.view import words
from redkiln.cli.view.panel import (
    epoch_words,
    metric_words,
    position_words,
    preview_words,
    shown_metrics,
    status_text,
    step_words,
)
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.result import Result, print_result
from redkiln.cli.view.run_time import running_seconds
from redkiln.cli.view.terminal import print_line
from redkiln.views.job import AttemptView, Estimates, JobView

MIN_TIME = 0.05
"""Shortest time, in seconds, that the page shows."""


def print_job(console: Console, result: Result, *, dataset_name: str) -> None:
    """Print a job's status, its attempts, its result and its spec."""
    job = result.job
    console.print(_facts(job, dataset_name))
    if job.attempts:
        console.print()
        _print_attempts(console, job)
    if job.is_terminal:
        console.print()
        print_result(console, result)
    else:
        for warning in job.warnings:
            line = Text(f"warning: {as_options(warning.message)}", style="yellow")
            print_line(console, line, is_prose=True)
    title = "spec, resolved by the worker" if job.resolved_spec else "spec"
    console.print(f"\n[bold]{title}[/bold]")
    console.print(Text(spec_text(job.resolved_spec or job.spec), style="dim"), soft_wrap=True)


def spec_text(spec: dict[str, Any]) -> str:
    """Return a spec as YAML that can be submitted again, without unset fields."""
    return yaml.safe_dump(_without_nulls(spec), sort_keys=False, allow_unicode=True).rstrip()


def estimate_lines(found: Estimates) -> list[str]:
    """Say what a spec would take on each device, and what is not known."""
    lines = []
    if found.model_auto is not None:
        lines.append(f"`model: auto` will be {found.model_auto}.")
    for item in found.estimates:
        parts = [words.duration(item.seconds)] if item.seconds is not None else []
        parts += [words.size(item.memory_bytes)] if item.memory_bytes is not None else []
        if parts:
            took = ", ".join(parts)
            lines.append(f"About {took} on {item.device}, as measured by {item.measured_by}.")
        if item.caveat is not None:
            lines.append(f"{item.caveat}.")
        if item.model_auto is not None and found.model_auto is None:
            lines.append(f"On {item.device}, `model: auto` was {item.model_auto}.")
    return lines + [f"Unknown: {text}." for text in found.unknown]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _facts(job: JobView, dataset_name: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    status = status_text(str(job.status))
    if job.phase is not None and not job.is_terminal:
        status.append(f", {job.phase}", style="")
    rows: list[tuple[str, Text | str | None]] = [
        ("name", Text(job.name, style="bold")),
        ("id", job.id),
        ("status", status),
        ("why", job.reason.message if job.reason else None),
        ("queue", f"position {position_words(job.queue_position)}" if job.queue_position else None),
        ("task", job.task),
        ("data set", f"{dataset_name} ({job.dataset_id})" if job.dataset_id else None),
        ("project", None if job.project == "default" else job.project),
        ("created", words.ago(job.created_at)),
        ("ran for", None if (ran := running_seconds(job)) is None else words.duration(ran)),
        ("times", _times(job)),
        ("device", words.device(job.environment or {})),
        ("progress", _progress(job)),
        ("samples", _samples(job)),
        ("metadata", ", ".join(f"{k}={v}" for k, v in job.metadata.items()) or None),
    ]
    for label, value in rows:
        if value is not None:
            table.add_row(label, Text(value) if isinstance(value, str) else value)
    return table


def _times(job: JobView) -> str | None:
    """Say how long a job that has ended waited, paused, and was in each phase."""
    if job.result is None:
        return None
    waits = {"queued": job.result.queued_seconds, "paused": job.result.paused_seconds}
    parts = {**waits, **job.result.phase_seconds}
    shown = [
        f"{name} {words.duration(value)}" for name, value in parts.items() if value >= MIN_TIME
    ]
    return ", ".join(shown) or None


def _progress(job: JobView) -> str | None:
    progress = job.progress
    if progress is None:
        return None
    metrics = (
        f"{metric_words(n)} {words.metric(n, v)}" for n, v in shown_metrics(progress.metrics)
    )
    epochs = [f"epoch {known}"] if (known := epoch_words(progress)) else []
    steps = [f"step {step}"] if (step := step_words(progress)) else []
    return ", ".join([*epochs, *steps, *metrics]) or None


def _samples(job: JobView) -> str | None:
    note = job.progress.preview if job.progress else None
    return None if note is None else preview_words(job.id, note)


def _print_attempts(console: Console, job: JobView) -> None:
    columns = (
        Column("attempt", is_right=True),
        Column("status"),
        Column("worker", when_narrow="drop"),
        Column("steps"),
        Column("time", is_right=True),
        Column("what happened", when_narrow="fold"),
    )
    newest = max(attempt.number for attempt in job.attempts)
    epoch = job.progress.epoch if job.progress else 0
    rows = [
        _attempt_row(attempt, epoch=epoch if attempt.number == newest else 0)
        for attempt in job.attempts
    ]
    print_table(console, columns, rows)


def _attempt_row(attempt: AttemptView, *, epoch: int) -> tuple[Text | str, ...]:
    """Return the row of an attempt; a script may report only its epoch, and no steps."""
    end = attempt.finished_at or datetime.now(UTC)
    start = f"from {attempt.resumed_from_step} " if attempt.resumed_from_step else ""
    without_steps = f"epoch {epoch}" if epoch else ""
    return (
        str(attempt.number),
        str(attempt.status),
        Text(attempt.worker_id, style="dim"),
        f"{start}to {attempt.last_step}" if attempt.last_step else without_steps,
        words.duration((end - attempt.started_at).total_seconds()),
        attempt.failure.message if attempt.failure else "",
    )
