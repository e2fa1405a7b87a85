"""Jobs as rows of a table, in the order that the user asked for."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.differences import is_lower_better
from redkiln.cli.view.panel import HEADLINES, metric_words, status_text
from redkiln.cli.view.render import Column, print_table
from redkiln.views.job import JobSummary
from redkiln.views.result import Outcome

BY_FACT = ("created", "name", "priority")
"""What jobs can be sorted by apart from a metric."""


def sort_jobs(jobs: Sequence[JobSummary], key: str) -> list[JobSummary]:
    """Return jobs sorted by a metric, the best first, or by one of `BY_FACT`.

    Jobs without the metric come last.

    Raises:
        UsageError: No job has this metric; the message lists those that jobs have.
    """
    if key == "name":
        return sorted(jobs, key=lambda job: job.name)
    if key in BY_FACT:
        return sorted(jobs, key=lambda job: getattr(job, f"{key}_at", job.priority), reverse=True)
    known = sorted({name for job in jobs for name in job.metrics()})
    if key not in known:
        choices = ", ".join((*known, *BY_FACT))
        raise UsageError(f"--sort {key}: no job has this metric. Choose one of: {choices}")
    sign = 1 if is_lower_better(key) else -1
    return sorted(jobs, key=lambda job: sign * job.metrics().get(key, sign * float("inf")))


def print_jobs(console: Console, jobs: Sequence[JobSummary], *, metric: str | None = None) -> None:
    """Print jobs, one a line.

    Args:
        console: Console to print on.
        jobs: Jobs in the order of the table.
        metric: Metric to show instead of the headline of each job.
    """
    columns = (
        Column("name", when_narrow="cut"),
        Column("status"),
        Column(metric or "progress or result", is_right=True),
        *([Column("prio", is_right=True)] if _has_priorities(jobs) else []),
        Column("created", when_narrow="drop"),
        Column("id", when_narrow="cut"),
    )
    print_table(console, columns, [_row(job, jobs, metric) for job in jobs])


def _has_priorities(jobs: Sequence[JobSummary]) -> bool:
    return any(job.priority for job in jobs)


def _row(job: JobSummary, jobs: Sequence[JobSummary], metric: str | None) -> list[Text | str]:
    status = status_text(str(job.status))
    if job.queue_position is not None:
        status = Text.assemble(status, f" #{job.queue_position}")
    return [
        job.name,
        status,
        _progress_words(job) if metric is None else _metric_words(job, metric),
        *([str(job.priority)] if _has_priorities(jobs) else []),
        words.ago(job.created_at),
        Text(job.id, style="dim"),
    ]


def _metric_words(job: JobSummary, metric: str) -> str:
    value = job.metrics().get(metric)
    return "" if value is None else words.metric(metric, value)


def _progress_words(job: JobSummary) -> str:
    if job.is_terminal:
        return _result_words(job.result)
    if job.progress is None:
        return ""
    phase = f"{job.phase} " if job.phase else ""
    return f"{phase}{100 * job.progress.fraction:.0f} %"


def _result_words(result: Outcome | None) -> str:
    """Return the metric by which what a job exported is judged: `test accuracy 98.3 %`."""
    if result is None:
        return ""
    known = (result.headline, *HEADLINES)
    name = next((name for name in known if name in result.metrics), None)
    if name is None:
        return ""
    label = metric_words(name.removesuffix("_onnx"))
    return f"{label} {words.metric(name, result.metrics[name])}"
