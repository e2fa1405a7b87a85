"""Commands on the files of a job: list and download its artifacts."""

from collections.abc import Set
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command, print_json
from redkiln.cli.exit_codes import ExitCode, is_verified
from redkiln.cli.jobs import JobName
from redkiln.cli.output_folder import choose_folder, mark_folder
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.result import Result, print_result
from redkiln.cli.view.transfers import download_counter, transfer_bars
from redkiln.client.result_folder import place_artifact
from redkiln.tasks import exports_model
from redkiln.views.artifact import ArtifactView, add_data_files
from redkiln.views.job import JobView


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "artifacts", rich_help_panel="Results", examples=("redkiln artifacts last",))(
        artifacts
    )
    command(app, "download", rich_help_panel="Results", examples=(
        "redkiln download last",
        "redkiln download flowers -o models/flowers",
        "redkiln download last model.onnx manifest.json",
    ))(download)  # fmt: skip


def artifacts(session: Session, job: JobName) -> None:
    """List the files of a job."""
    listed = session.client.artifacts(find_job_id(session.client, job))
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note(
            "No artifacts yet. A job publishes them when it succeeds or fails, a "
            "script also each file in {out} when it is closed, or when the job stops."
        )
        return
    columns = (
        Column("name", when_narrow="cut"),
        Column("kind"),
        Column("size", is_right=True),
        Column("verified"),
        Column("sha256", when_narrow="drop"),
    )
    rows = [
        (
            item.name,
            item.kind,
            words.size(item.size_bytes),
            _verdict(item),
            Text(item.sha256[:16], style="dim"),
        )
        for item in listed
    ]
    print_table(session.out, columns, rows)


def download(
    session: Session,
    job: JobName,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]", help="Download only these files.", show_default=False),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the files (default ./out/JOB_NAME).",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Download the files of a job, resuming interrupted downloads.

    An ONNX file comes with the file of its weights (FILE.onnx.data), if it has one.
    A file gets its final name only after its sha256 has been checked. The exit
    status is 5 if the model is unverified.
    """
    found = session.client.job(find_job_id(session.client, job))
    listed = session.client.artifacts(found.id)
    target = folder or choose_folder(Path("out"), found)
    paths = fetch(session, found, _select(listed, names, found), target)
    if session.is_json:
        session.emit({"job_id": found.id, "folder": str(target), "files": paths})
    else:
        session.say(f"{words.plural(len(paths), 'file')} in {target}/, sha256 verified")
    if exports_model(found.task) and not is_verified(listed):
        seen = f"`redkiln verify {found.id}` shows the differences"
        session.note(f"The model is UNVERIFIED: see report.md; {seen}")
        raise typer.Exit(ExitCode.UNVERIFIED)


def fetch(session: Session, job: JobView, chosen: list[ArtifactView], folder: Path) -> list[Path]:
    """Download artifacts into a folder, with a progress bar for each.

    Raises:
        TransferError: A name leads out of the folder, or a file cannot be written.
    """
    paths = [place_artifact(folder, item.name) for item in chosen]
    mark_folder(folder, job)
    with transfer_bars(session.notes) as bars:
        return [
            session.client.download(
                item,
                path,
                on_bytes=download_counter(bars, item.name, item.size_bytes),
                with_data=False,
            )
            for item, path in zip(chosen, paths, strict=True)
        ]


def _select(
    listed: list[ArtifactView], names: list[str] | None, job: JobView
) -> list[ArtifactView]:
    if not listed:
        raise UsageError(
            f"{job.name} ({job.id}) has no artifacts. Its status is {job.status}; artifacts are "
            "published when a job succeeds."
        )
    known = {item.name: item for item in listed}
    for name in names or ():
        if name not in known:
            raise UsageError(f"The job has no file {name!r}. Its files: {', '.join(known)}.")
    return add_data_files([known[name] for name in names], listed) if names else listed


def _verdict(item: ArtifactView) -> Text:
    if item.verified is None:
        return Text("")
    return Text("yes", style="green") if item.verified else Text("NO", style="bold yellow")


def deliver_result(
    session: Session,
    result: Result,
    folder: Path | None,
    *,
    screen: Console | None = None,
    warned: Set[str] = frozenset(),
    is_model: bool = True,
) -> None:
    """Download the files of a job that has ended, and print its result.

    Args:
        session: Session of the command.
        result: The job's result.
        folder: Folder for the files; by default one below `out/`.
        screen: Terminal that shows the result to people; standard output by default.
        warned: Messages of the warnings that this terminal shows above.
        is_model: Whether the job trained a model, so that its JSON says if the model is verified.
    """
    target: Path | None = None
    paths: list[Path] = []
    if result.artifacts:
        target = folder or choose_folder(Path("out"), result.job)
        paths = fetch(session, result.job, result.artifacts, target)
    if not session.is_json:
        print_result(screen or session.out, result, folder=target, warned=warned)
        return
    print_json(
        {
            "type": "result",
            "job_id": result.job.id,
            "status": str(result.job.status),
            **({"verified": result.exit_code is ExitCode.OK} if is_model else {}),
            "metrics": result.metrics,
            "folder": str(target) if target else None,
            "files": [str(path) for path in paths],
        }
    )
