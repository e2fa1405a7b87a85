"""Prints how a job ended: the last lines that a user reads."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.cli.exit_codes import ExitCode, exit_code_of_job
from redkiln.cli.view import words
from redkiln.cli.view.panel import metric_words
from redkiln.client import Client
from redkiln.client.watching import Outage, ask_patiently
from redkiln.events import EventKind
from redkiln.status import JobStatus
from redkiln.tasks import exports_model
from redkiln.views.artifact import ArtifactView
from redkiln.views.job import EventView, JobView

RESULT_PATIENCE_SECONDS = 60.0
"""Time for the service to return if it restarts just when a job ends."""


@dataclass(frozen=True)
class Result:
    """A job that has ended, with its results.

    Attributes:
        outcome: Data of its `result` event (`metrics`, `verified`, `timings`).
    """

    job: JobView
    artifacts: list[ArtifactView] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of the command."""
        return exit_code_of_job(self.job, self.artifacts)


def load_result(client: Client, job: JobView) -> Result:
    """Fetch the results of a job that has ended."""
    if not job.is_terminal:
        return Result(job)

    def ask() -> Result:
        artifacts = client.artifacts(job.id)  # a script's are kept even if it failed
        if job.status is not JobStatus.SUCCEEDED:
            return Result(job, artifacts)
        return Result(job, artifacts, find_outcome(client.events(job.id)))

    return ask_patiently(ask, outage=Outage(patience_seconds=RESULT_PATIENCE_SECONDS))


def find_outcome(events: Iterable[EventView]) -> dict[str, Any]:
    """Return the data of the last `result` event."""
    found = [event.data for event in events if event.kind == EventKind.RESULT]
    return found[-1] if found else {}


def print_result(console: Console, result: Result, *, folder: Path | None = None) -> None:
    """Print how a job ended, how good the model is, and where the files are.

    Args:
        console: Console to print on.
        result: Result of the job.
        folder: Folder with the downloaded artifacts; None prints how to download them.
    """
    job = result.job
    console.print(_headline(result), soft_wrap=True)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, fact in _facts(result, folder):
        facts.add_row(f"  {label}", fact)
    if facts.row_count:
        console.print(facts)
    for warning in job.warnings:
        console.print(Text(f"  warning: {warning.message}", style="yellow"), soft_wrap=True)


def test_metrics(outcome: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of the test split, or all metrics if none is named `test/...`."""
    numbers = {
        name: value
        for name, value in (outcome.get("metrics") or {}).items()
        if isinstance(value, int | float)
    }
    return {k: v for k, v in numbers.items() if k.startswith("test/")} or numbers


def _headline(result: Result) -> Text:
    job = result.job
    took = ""
    if job.started_at and job.finished_at:
        took = f" in {words.duration((job.finished_at - job.started_at).total_seconds())}"
    match result.exit_code:
        case ExitCode.OK if not exports_model(job.task):
            return Text.assemble((f"{job.name} succeeded", "bold green"), took)
        case ExitCode.OK:
            return Text.assemble((f"{job.name} succeeded, model verified", "bold green"), took)
        case ExitCode.UNVERIFIED:
            return Text.assemble(
                (f"{job.name} succeeded, but the model is UNVERIFIED", "bold yellow"), took
            )
        case ExitCode.JOB_CANCELLED:
            return Text.assemble((f"{job.name} was cancelled", "bold magenta"), took)
    return Text.assemble((f"{job.name} failed", "bold red"), took)


def _facts(result: Result, folder: Path | None) -> list[tuple[str, Text | str]]:
    job = result.job
    facts: list[tuple[str, Text | str]] = []
    if job.reason is not None and job.status is not JobStatus.SUCCEEDED:
        facts.append(("why", f"{job.reason.message} ({job.reason.code})"))
    for name, value in test_metrics(result.outcome).items():
        facts.append((metric_words(name), Text(words.metric(name, value), style="bold")))
    models = [artifact for artifact in result.artifacts if artifact.kind == "model"]
    for model in models:
        verdict = "verified against torch" if model.verified else "failed the check against torch"
        facts.append(("model", f"{model.name}, {words.size(model.size_bytes)}, {verdict}"))
    if folder is not None:
        facts.append(("files", f"{folder}/"))
    elif result.artifacts:
        facts.append(("files", f"redkiln download {job.id}"))
    if job.status is JobStatus.FAILED:
        facts.append(("log", f"redkiln logs {job.id}"))
    return facts
