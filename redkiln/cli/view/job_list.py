"""Jobs as rows of a table, in the order that the user asked for."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.differences import is_lower_better
from redkiln.cli.view.panel import HEADLINES, metric_words, status_text
from redkiln.cli.view.render import Column, print_table
from redkiln.tasks.script import NAME as SCRIPT
from redkiln.views.job import JobSummary
from redkiln.views.result import Verdict

BY_FACT = ("created", "ended", "name", "priority", "queue")
"""What jobs can be sorted by apart from a metric."""
RISING = ("name", "queue")


def order_of(key: str) -> str:
    """Return the service's `sort` for a key: the best, newest or most important job first.

    Args:
        key: A metric, or one of `BY_FACT`; `-` in front of it means what it does for the service.
    """
    is_rising = key in RISING or (key not in BY_FACT and is_lower_better(key))
    return key if is_rising or key.startswith("-") else f"-{key}"


def refuse_metric(key: str, newest: Sequence[JobSummary]) -> UsageError:
    """Return the error for a metric that no job has; it lists those of the newest jobs."""
    known = sorted({name for job in newest for name in job.metrics()})
    choices = ", ".join((*known, *BY_FACT))
    return UsageError(f"--sort {key}: no job has this metric. Choose one of: {choices}")


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
        *([Column("project", when_narrow="cut")] if _has_projects(jobs) else []),
        Column("created", when_narrow="drop"),
        Column("id", when_narrow="cut"),
    )
    print_table(console, columns, [_row(job, jobs, metric) for job in jobs])


def _has_priorities(jobs: Sequence[JobSummary]) -> bool:
    return any(job.priority for job in jobs)


def _has_projects(jobs: Sequence[JobSummary]) -> bool:
    return len({job.project for job in jobs}) > 1


def _row(job: JobSummary, jobs: Sequence[JobSummary], metric: str | None) -> list[Text | str]:
    status = status_text(str(job.status))
    if job.queue_position is not None:
        status = Text.assemble(status, f" #{job.queue_position}")
    return [
        job.name,
        status,
        _progress_words(job) if metric is None else _metric_words(job, metric),
        *([str(job.priority)] if _has_priorities(jobs) else []),
        *([job.project] if _has_projects(jobs) else []),
        words.ago(job.created_at),
        Text(job.id, style="dim"),
    ]


def _metric_words(job: JobSummary, metric: str) -> str:
    value = job.metrics().get(metric)
    return "" if value is None else words.metric(metric, value)


def _progress_words(job: JobSummary) -> str:
    if job.is_terminal:
        return _result_words(job)
    if job.progress is None:
        return ""
    phase = f"{job.phase} " if job.phase else ""
    return f"{phase}{100 * job.progress.fraction:.0f} %"


def _result_words(job: JobSummary) -> str:
    """Return a job's result: `test accuracy 98.3 %`, and whether its model failed its check."""
    parts = []
    metrics = job.metrics()
    if name := _choose_metric(job, metrics):
        label = metric_words(name.removesuffix("_onnx"))
        parts.append(f"{label} {words.metric(name, metrics[name])}")
    if job.result is not None and job.result.verdict is Verdict.UNVERIFIED:
        parts.append("UNVERIFIED")
    return ", ".join(parts)


def _choose_metric(job: JobSummary, metrics: Mapping[str, float]) -> str | None:
    """Return the metric by which a job is judged; of a script, one measured on other data first."""
    headline = None if job.result is None else job.result.headline
    known = (headline, *HEADLINES)
    found = next((name for name in known if name in metrics), None)
    if found is not None or job.task != SCRIPT:
        return found
    held = (name for name in sorted(metrics) if name.startswith(("test", "val", "eval")))
    return next(iter((*held, *sorted(metrics))), None)
