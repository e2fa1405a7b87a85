"""`redkiln train`: from images, boxes, texts or a table to a verified ONNX in one command."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from redkiln.advice.wording import as_options
from redkiln.cli.arguments.completion import complete_data
from redkiln.cli.arguments.inspect_path import SPEC_SUFFIXES, check_path
from redkiln.cli.arguments.specfile import SpecSource
from redkiln.cli.arguments.table_options import TableArguments
from redkiln.cli.arguments.training_options import TrainingArguments
from redkiln.cli.artifacts import deliver_result
from redkiln.cli.command import Session, command
from redkiln.cli.dataset_words import option_words, skipped_words, warning_line
from redkiln.cli.datasets import find_dataset, upload, wait_until_ready
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.jobs import Assignments, DryRun, print_detached, print_dry_run, print_queued
from redkiln.cli.problems import UsageError
from redkiln.cli.script.sent_model import send_model
from redkiln.cli.view import words
from redkiln.cli.view.live import JsonScreen, follow_job, screen_for
from redkiln.cli.view.result import load_result
from redkiln.client import dataset_name
from redkiln.client.result_folder import find_owner
from redkiln.errors import NotAuthorized, NotFound, Rejected
from redkiln.views.dataset import DatasetView

BUILTIN = "builtin:"


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "train", rich_help_panel="Train", examples=(
        "redkiln train ~/flowers                       # a folder of class folders",
        "redkiln train mnist.zip --model mnist-cnn --epochs 5",
        "redkiln train ~/flowers --model net.onnx      # trains an ONNX file",
        "redkiln train ~/flowers --model net.py:Net    # your own nn.Module",
        "redkiln train houses.csv --target price       # a table; the task is inferred",
        "redkiln train houses --lr 0.001 --detach      # a data set that was pushed",
        "redkiln train builtin:digits -o digits-model",
    ))(train)  # fmt: skip


def train(
    session: Session,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, with boxes or masks if it has some, or a zip or tar of one; "
            "a table or texts with labels (CSV, TSV, JSON lines, Parquet), "
            "the name of a data set that was pushed, or a built-in set such as builtin:digits.",
            show_default=False,
            autocompletion=complete_data,
        ),
    ],
    assignments: Assignments = None,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the results (default ./out/JOB_NAME)."),
    ] = None,
    is_detached: Annotated[
        bool, typer.Option("--detach", help="Queue the job and return at once.")
    ] = False,
    is_dry: DryRun = False,
    *,
    training: TrainingArguments,
    table: TableArguments,
) -> None:
    """Train on images, boxes, texts or a table, and download a verified ONNX model.

    Registers the data, waits until it is validated, queues a job with
    defaults, shows it live, and downloads all of its files. Ctrl-C detaches;
    the job continues.
    """
    source = SpecSource({"dataset": ""}, {"/dataset": "DATA"})
    training.write_to(source)
    send_model(session, source, model=training.model, pretrained=training.pretrained)
    source.assign(assignments or ())
    source.value["dataset"] = _dataset_of(session, data, table.collect())
    session.locate = source.locate
    if is_dry:
        print_dry_run(session, source)
        _note_upload(session, data, source.value["dataset"])
        return
    job = session.client.submit(source.value)
    if is_detached:
        print_queued(session, job)
        return
    screen = JsonScreen() if session.is_json else screen_for(session.out)
    try:
        ended = follow_job(session.client, job.id, screen)
    except KeyboardInterrupt:
        print_detached(session, job.id)
        session.note(f"After it ends, download its files: redkiln download {job.id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    result = load_result(session.client, ended)
    deliver_result(session, result, folder, warned=screen.warned)
    raise typer.Exit(result.exit_code)


def _dataset_of(session: Session, data: str, options: dict[str, Any]) -> str:
    """Register the data at a path, wait until it is ready, and return its reference for a spec."""
    if data.startswith(BUILTIN):
        _refuse_options(data, options, "is a built-in data set with fixed columns.")
        return data
    return prepare_data(session, data, options).id


def prepare_data(session: Session, data: str, options: dict[str, Any]) -> DatasetView:
    """Register data or find it by name, wait until it is ready, and say what it is.

    Args:
        session: Session of the command.
        data: Path, or id or name of a data set.
        options: Options of a table.

    Raises:
        UsageError: There is no such data, or options were given for a registered data set.
    """
    local = Path(data).expanduser()
    owner = find_owner(local) if local.is_dir() else None
    if (owner or not local.exists()) and (pushed := _find_pushed(session, data)) is not None:
        _refuse_options(
            data, options, "is already pushed; to read it with other options, push the file again."
        )
        dataset = pushed
    elif owner is not None:
        raise UsageError(f"{data} is a folder with the results of {owner}, not a data set.")
    else:
        check_path(local)
        if not options:
            _note_options(session, data)
        dataset = _register(session, local, options)
    ready = wait_until_ready(session, dataset)
    if not session.is_json:
        session.note(_describe(ready))
        for note in ready.notes if ready.columns else ():
            session.note(Text(f"note: {as_options(note)}", style="dim"))
        for warning in ready.warnings:
            session.note(warning_line(warning, ready))
        if ready.num_skipped:
            message = f"{skipped_words(ready)} skipped: redkiln datasets show {ready.id}"
            session.note(Text(message, "yellow"))
    return ready


def _find_pushed(session: Session, named: str) -> DatasetView | None:
    """Return the data set with this id or name; None if none exists or it looks like a path."""
    if os.sep in named or Path(named).suffix.lower() in SPEC_SUFFIXES:
        return None
    try:
        return find_dataset(session, named)
    except UsageError:
        return None


def _note_upload(session: Session, data: str, dataset_id: str) -> None:
    """Say that the data of a dry run are uploaded, and that their name means them now."""
    path = Path(data).expanduser()
    if session.is_json or not path.exists() or data.startswith(BUILTIN):
        return
    named = _find_pushed(session, dataset_name(path))
    if named is not None and named.id == dataset_id:
        session.note(
            f"No job was queued. The data set {named.name} now means these data, read with the "
            f"options above; to remove it: redkiln datasets delete {named.id}"
        )


def _note_options(session: Session, data: str) -> None:
    """Say that a pushed data set of the same name was read with options, which these files lack."""
    pushed = _find_pushed(session, data)
    given = pushed and option_words(pushed)
    if pushed is not None and given:
        session.note(
            Text(
                f"{data} is read here without options; data set {pushed.name} was pushed with "
                f"{given}. To train on that one: redkiln train {pushed.id}",
                "yellow",
            )
        )


def _refuse_options(data: str, options: dict[str, Any], why: str) -> None:
    if options:
        flags = {"columns": "column", "classes": "class"}
        given = ", ".join(
            f"--{flags.get(name, name).replace(chr(95), chr(45))}" for name in options
        )
        raise UsageError(f"{data} {why} Remove {given}.")


def _describe(dataset: DatasetView) -> str:
    samples = sum(sum(split.values()) for split in dataset.counts.values())
    what = words.plural(samples, "row" if dataset.columns else "image")
    classes = f" in {words.plural(len(dataset.classes), 'class')}" if dataset.classes else ""
    aim = f", {dataset.task} of {dataset.target}" if dataset.columns else ""
    return f"data set {dataset.name}: {what}{classes}{aim}"


def _register(session: Session, path: Path, options: dict[str, Any]) -> DatasetView:
    """Register a folder in place if the service can read it, else upload it."""
    if path.is_dir() and session.client.is_local:
        try:
            return session.client.register_folder(path, **options)
        except (Rejected, NotAuthorized, NotFound):
            pass  # not below one of the service's data roots, so it is uploaded
    return upload(session, path, dataset_name(path), options)
