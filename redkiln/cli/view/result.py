"""Prints how a job ended: the last lines that a user reads."""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.advice.wording import as_options
from redkiln.cli.exit_codes import ExitCode, exit_code_of_job
from redkiln.cli.view import words
from redkiln.cli.view.comparison import (
    MACRO_F1,
    baseline_words,
    fold_rows,
    interval_words,
    share_words,
    threshold_words,
)
from redkiln.cli.view.panel import metric_words
from redkiln.cli.view.run_time import running_seconds
from redkiln.cli.view.terminal import print_line
from redkiln.client import Client
from redkiln.client.watching import Outage, ask_patiently
from redkiln.errors import NotFound
from redkiln.spec.boosting import BOOSTING
from redkiln.status import JobStatus
from redkiln.tables import TABLE_TASKS
from redkiln.tasks import exports_model
from redkiln.tasks.script import NAME as SCRIPT
from redkiln.views.artifact import ArtifactView, find_data_file
from redkiln.views.comparison import Comparison
from redkiln.views.dataset import UNUSED_COLUMNS
from redkiln.views.job import JobView
from redkiln.views.result import JobResult

RESULT_PATIENCE_SECONDS = 60.0
"""Time for the service to return if it restarts just when a job ends."""

SAMPLES_ADVICE = (
    "to have the model compared, write its inputs and outputs into samples.npz next to it: see "
    "ONNX in docs/scripts.md"
)


@dataclass(frozen=True)
class Result:
    """A job that has ended, with its files.

    Attributes:
        unused: The message that names columns of its table that the inspection left out, if any.
    """

    job: JobView
    artifacts: list[ArtifactView] = field(default_factory=list)
    unused: str = ""

    @property
    def metrics(self) -> dict[str, float]:
        """The final metrics of a job that succeeded."""
        if self.job.result is None or self.job.status is not JobStatus.SUCCEEDED:
            return {}
        return self.job.result.metrics

    @property
    def comparison(self) -> Comparison | None:
        """The model of a job that succeeded, next to its baselines."""
        return self.job.result.comparison if self.job.result and self.metrics else None

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of the command."""
        return exit_code_of_job(self.job, self.artifacts)


def load_result(client: Client, job: JobView) -> Result:
    """Fetch the results of a job that has ended."""
    if not job.is_terminal:
        return Result(job)
    artifacts = ask_patiently(
        lambda: client.artifacts(job.id), outage=Outage(patience_seconds=RESULT_PATIENCE_SECONDS)
    )
    return Result(job, artifacts, _find_unused(client, job))


def _find_unused(client: Client, job: JobView) -> str:
    if job.dataset_id is None or job.task not in TABLE_TASKS:
        return ""
    try:
        warnings = client.dataset(job.dataset_id).warnings
    except NotFound:
        return ""  # it was deleted
    messages = (warning.message for warning in warnings)
    return next((one for one in messages if one.startswith(UNUSED_COLUMNS)), "")


def print_result(
    console: Console,
    result: Result,
    *,
    folder: Path | None = None,
    warned: Set[str] = frozenset(),
) -> None:
    """Print how a job ended, how good the model is, and where the files are.

    Args:
        console: Console to print on.
        result: Result of the job.
        folder: Folder with the downloaded artifacts; None prints how to download them.
        warned: Messages of the warnings that the console shows above; they are only counted.
    """
    job = result.job
    console.print(_headline(result), soft_wrap=True)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, fact in _facts(result, folder):
        facts.add_row(f"  {label}", Text(fact) if isinstance(fact, str) else fact)
    if facts.row_count:
        console.print(facts)
    for line in _warning_lines(job, warned):
        print_line(console, Text(f"  {line}", style="yellow"), is_prose=True)


def _warning_lines(job: JobView, warned: Set[str]) -> Iterator[str]:
    messages = [warning.message for warning in job.warnings]
    new = (message for message in messages if message not in warned)
    yield from (f"warning: {as_options(message)}" for message in new)
    if num_above := sum(message in warned for message in messages):
        again = "read it again" if num_above == 1 else "read them again"
        yield f"{words.plural(num_above, 'warning')} above; {again}: redkiln job {job.id}"


def _headline(result: Result) -> Text:
    job = result.job
    ran = running_seconds(job)
    took = "" if ran is None else f", ran {words.duration(ran)}"
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
    comparison = result.comparison
    judged_by = "" if comparison is None else comparison.metric
    for name, value in sorted(result.metrics.items(), key=lambda item: item[0] != judged_by):
        shown = Text(words.metric(name, value), style="bold")
        shown.append(interval_words(comparison, name) + share_words(comparison, name), "dim")
        facts.append((metric_words(name), shown))
    if job.result is not None and job.result.copies is not None:
        facts.append(("test split", job.result.copies.describe()))
    if comparison is not None:
        facts.append(("baselines", baseline_words(comparison)))
    threshold = result.job.result.threshold if result.job.result else None
    is_rare = judged_by == MACRO_F1
    folds = job.result.cross_validation if job.result else None
    if threshold is not None and (said := threshold_words(threshold, folds=folds, is_rare=is_rare)):
        facts.append(("threshold", said))
    if folds is not None:
        facts += fold_rows(folds, first=judged_by)
    if result.unused and result.metrics:
        facts.append(("not used", as_options(result.unused.removeprefix(UNUSED_COLUMNS))))
    models = [artifact for artifact in result.artifacts if artifact.kind == "model"]
    facts += [
        ("model", f"{m.name}, {_model_size(m, result.artifacts)}, {_checked(m, job)}")
        for m in models
    ]
    if job.task == SCRIPT and any(model.verified is None for model in models):
        facts.append(("advice", SAMPLES_ADVICE))
    if job.result is not None:
        facts += _variant_rows(job.result)
    if folder is not None:
        facts.append(("files", f"{folder}/"))
    elif result.artifacts:
        facts.append(("files", f"redkiln download {job.id}"))
    if job.status is JobStatus.FAILED:
        facts.append(("log", f"redkiln logs {job.id}"))
    return facts


def _variant_rows(result: JobResult) -> list[tuple[str, Text | str]]:
    """Return a row for each variant, and the recommendation."""
    rows: list[tuple[str, Text | str]] = []
    for one in result.variants:
        if one.metric is None:
            rows.append(("variant", f"{one.name}: {'; '.join(one.misses)}"))
            continue
        time = "" if one.median_ms is None else f", {one.median_ms:.3g} ms for 32"
        value = words.metric(one.metric_name, one.metric)
        rows.append(("variant", f"{one.name}: {one.metric_name} {value}{time}"))
    return [*rows, ("advice", result.recommendation)] if result.recommendation else rows


def _model_size(model: ArtifactView, listed: list[ArtifactView]) -> str:
    data = find_data_file(model, listed)
    if data is None:
        return words.size(model.size_bytes)
    return f"{words.size(model.size_bytes + data.size_bytes)} with {data.name}"


def _checked(model: ArtifactView, job: JobView) -> str:
    named = job.spec.get("model")
    is_tree = isinstance(named, dict) and named.get("name") == BOOSTING
    reference = "scikit-learn" if is_tree else "torch"
    if job.task == SCRIPT:
        if model.verified is False:
            return "failed the check"  # a file that does not run fails without a comparison
        reference = "outputs of the script"
    if model.verified is None:
        return f"not compared with {reference}"
    outcome = "verified" if model.verified else "failed the check"
    return f"{outcome} against {reference}"
