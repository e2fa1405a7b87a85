"""Commands on data sets: list, push, show, check, delete."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from redkiln.advice.hidden import note_hidden
from redkiln.advice.wording import as_options
from redkiln.cli.arguments.completion import complete_dataset
from redkiln.cli.arguments.confirm import Sure, ask_before_deleting
from redkiln.cli.arguments.table_options import TableArguments
from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.dataset_words import (
    box_words,
    class_words,
    count_words,
    kind_words,
    label_words,
    mask_words,
    missing_words,
    option_words,
    refusal_words,
    size_words,
    skipped_words,
    warning_line,
)
from redkiln.cli.problems import UsageError, print_invalid_dataset
from redkiln.cli.view import words
from redkiln.cli.view.columns import print_columns
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.transfers import upload_progress, waiting
from redkiln.client import dataset_name
from redkiln.client.packing import list_hidden
from redkiln.errors import NotFound
from redkiln.tables import TABLE_TASKS
from redkiln.views.dataset import DatasetStatus, DatasetView
from redkiln.views.sample import RowPage, SamplePage

_SKIPPED_NOTE = re.compile(r"cannot be used and (?:was|were) skipped: ")
"""In the note that names the skipped files or rows."""
MOST_SKIPPED = 10
MOST_COLUMNS = 6
"""Columns of a table, next to the target, that `samples` shows."""
FEW_TESTS = 50
"""Samples of the test split below which `check` says how coarse an accuracy on them is."""
STATUS_STYLES = {
    DatasetStatus.VALIDATING: "yellow",
    DatasetStatus.READY: "green",
    DatasetStatus.INVALID: "red",
}

DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="Id or name; of several data sets with one name, the newest.",
        autocompletion=complete_dataset,
    ),
]
DatasetNames = Annotated[
    list[str],
    typer.Argument(
        metavar="DATASET...",
        help="Ids or names.",
        show_default=False,
        autocompletion=complete_dataset,
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        rich_markup_mode="rich",
        help="List, push, show, check and delete data sets, and see their samples.",
        epilog=example_text((
            "redkiln datasets",
            "redkiln datasets push ~/flowers --name flowers",
            "redkiln datasets push houses.csv --target price",
            "redkiln datasets show flowers",
            "redkiln datasets check flowers",
        )),
    )  # fmt: skip
    app.add_typer(group, name="datasets", rich_help_panel="Data")
    default_command(group)(list_datasets)
    command(group, "push", examples=(
        "redkiln datasets push ~/flowers                 # a folder of class folders",
        "redkiln datasets push mnist.zip --name mnist",
        "redkiln datasets push houses.csv --target price --column zip=categorical",
        "redkiln datasets push reviews.jsonl --text review --target stars",
    ))(push)  # fmt: skip
    command(group, "show", examples=("redkiln datasets show flowers",))(show)
    command(group, "check", examples=("redkiln datasets check flowers",))(check)
    command(group, "samples", examples=(
        "redkiln datasets samples flowers                # a picture of the first images",
        "redkiln datasets samples houses -n 5            # the first rows of a table, or texts",
        "redkiln datasets samples street --split test --class car -o cars.png",
    ))(samples)  # fmt: skip
    command(group, "delete", examples=("redkiln datasets delete flowers",))(delete)


def list_datasets(session: Session) -> None:
    """List data sets, the newest first."""
    listed = list(session.client.datasets())
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note("No data sets yet. Push one: redkiln datasets push FOLDER_OR_FILE")
        return
    columns = (
        Column("name", when_narrow="cut"),
        Column("status"),
        Column("classes", is_right=True),
        Column("samples", is_right=True),
        Column("size", is_right=True),
        Column("created"),
        Column("id", when_narrow="drop"),
    )
    print_table(session.out, columns, [_row(item) for item in listed])
    refused = [item for item in listed if item.status is DatasetStatus.INVALID]
    if refused:
        session.note(refusal_words(refused))


def push(
    session: Session,
    path: Annotated[
        Path,
        typer.Argument(
            help="A folder, a zip or tar, or a table: CSV, TSV, JSON lines or Parquet, plain or "
            ".gz.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the data set (default: the file's name).")
    ] = None,
    is_awaited: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the data set is validated.")
    ] = True,
    *,
    table: TableArguments,
) -> None:
    """Upload a folder, zip, tar or table as a data set.

    A folder is packed as a tar while it is sent; the same files always give the
    same bytes. A data set that the service already has is not sent again.

    For a table, the service infers columns, types, target and task, and this
    command shows them with the words that were read as missing. If an inference
    is wrong, correct it with the options below and push the table again.
    """
    dataset = upload(session, path, name, table.collect())
    if is_awaited:
        dataset = wait_until_ready(session, dataset)
    if session.is_json:
        session.emit(dataset)
    else:
        print_dataset(session, dataset)


def show(session: Session, dataset: DatasetName) -> None:
    """Show a data set: its classes, columns, counts, and what was skipped or wrong."""
    found = find_dataset(session, dataset)
    if session.is_json:
        session.emit(found)
    else:
        print_dataset(session, found)


def check(
    session: Session,
    dataset: DatasetName,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="List the copies, each with the sample that it copies."),
    ] = False,
) -> None:
    """Show doubts about the quality of a data set, and what to do.

    The service looks for copies of samples within and across the splits, equal
    samples in two classes, small classes and imbalance, and columns that leak the
    target or were left out. A data set with warnings can be trained on.
    """
    found = find_dataset(session, dataset)
    if found.status is DatasetStatus.VALIDATING:
        found = wait_until_ready(session, found)
    if session.is_json:
        session.emit({"id": found.id, "name": found.name, "warnings": found.warnings})
        return
    if found.errors:
        print_invalid_dataset(session.out, found)
    for warning in found.warnings:
        session.say(warning_line(warning, found), is_prose=True)
        for copy, original in warning.pairs if pairs else ():
            session.say(Text(f"  {copy} = {original}"))
    if not found.errors and not found.warnings:
        session.say(Text(f"{found.name}: no warnings", style="green"))
    num_test = sum(found.counts.get("test", {}).values())
    if found.classes and not found.errors and 0 < num_test < FEW_TESTS:
        points = words.plural(round(100 / num_test), "point")
        tests = words.plural(num_test, "test sample")
        message = f"{tests}: one right answer more or less is {points} of accuracy"
        session.say(Text(message, style="dim"))


def samples(
    session: Session,
    dataset: DatasetName,
    split: Annotated[
        Literal["train", "test"], typer.Option("--split", help="Split to show.")
    ] = "train",
    class_name: Annotated[
        str | None,
        typer.Option("--class", help="Class of the samples, or of an object in the images.",
                     show_default=False),
    ] = None,
    num: Annotated[int, typer.Option("-n", "--num", min=1, max=100, help="Samples to show.")] = 50,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File of the picture (default ./DATA_SET-samples.png).",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """List samples of a data set: rows, or images with a picture of them and their boxes.

    Without --class, some of every class come first.
    """
    found = find_dataset(session, dataset)
    is_mixed = class_name is None
    if found.task in TABLE_TASKS:
        rows = session.client.dataset_rows(
            found.id, split=split, class_name=class_name, limit=num, mixed=is_mixed
        )
        _print_rows(session, rows, target=found.target or "target")
        return
    page = session.client.dataset_samples(
        found.id, split=split, class_name=class_name, limit=num, mixed=is_mixed
    )
    path = output or Path(f"{found.name.rpartition(':')[2]}-samples.png")
    _print_images(session, page, path)


def _print_rows(session: Session, page: RowPage, *, target: str) -> None:
    if session.is_json:
        session.emit({"columns": page.columns, "rows": page.data})
        return
    shown = page.columns[:MOST_COLUMNS]
    columns = [Column(name, when_narrow="cut") for name in (target, *shown)]
    rows = [[one.target, *(cell or "" for cell in one.cells[:MOST_COLUMNS])] for one in page.data]
    print_table(session.out, columns, rows)
    if page.num_columns > len(shown):
        session.note(f"The first {len(shown)} of {page.num_columns} columns are shown.")


def _print_images(session: Session, page: SamplePage, path: Path) -> None:
    picture = session.client.samples_picture(page)
    if picture is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    if session.is_json:
        session.emit({"path": None if picture is None else str(path), "samples": page.data})
        return
    columns = [Column("image", when_narrow="cut"), Column("classes", when_narrow="cut")]
    rows = [[one.path, one.class_name] for one in page.data]
    if any(one.boxes is not None for one in page.data):
        columns.append(Column("boxes", is_right=True))
        for row, one in zip(rows, page.data, strict=True):
            row.append("" if one.boxes is None else str(len(one.boxes)))
    print_table(session.out, columns, rows)
    if picture is not None:
        session.say(f"picture: {path}")


def delete(session: Session, datasets: DatasetNames, is_sure: Sure = False) -> None:
    """Delete data sets; a folder that was registered in place is kept."""
    found = [find_dataset(session, named) for named in datasets]
    named = [f"data set {item.name} ({item.id})" for item in found]
    ask_before_deleting(session, named, is_sure=is_sure)
    for item in found:
        session.client.delete_dataset(item.id)
        if not session.is_json:
            session.say(f"deleted {item.name} ({item.id})")
    if session.is_json:
        deleted = [item.id for item in found]
        session.emit({"deleted": deleted[0] if len(deleted) == 1 else deleted})


def upload(
    session: Session, path: Path, name: str | None, options: dict[str, Any] | None = None
) -> DatasetView:
    """Upload a folder, archive or table, with a progress bar.

    Names have only some characters; if the path's name has others, say what its set is called.
    """
    with upload_progress(session.notes, path.name or dataset_name(path)) as on_progress:
        dataset = session.client.push_dataset(
            path, name, on_progress=on_progress, **(options or {})
        )
    for note in note_hidden(list_hidden(path)):
        session.note(Text(f"note: {note}", style="dim"))
    stored = dataset_name(path)
    if name in (None, stored) and stored not in path.resolve().name and not session.is_json:
        session.note(
            f"{path.name} is stored as data set {stored}. To choose the name: redkiln datasets "
            "push PATH --name NAME"
        )
    return dataset


def wait_until_ready(session: Session, dataset: DatasetView) -> DatasetView:
    """Wait until a data set is validated, with a spinner."""
    with waiting(session.notes, f"validating {dataset.name}"):
        return session.client.wait_dataset(dataset.id)


def find_dataset(session: Session, named: str) -> DatasetView:
    """Return the data set with this id, else the newest one with this name.

    Raises:
        UsageError: It does not exist. The message names one that `named` resembles, such as the one
            that a folder of this name was stored as.
    """
    try:
        return session.client.dataset(named)
    except NotFound:
        pass
    known = [dataset.name for dataset in session.client.datasets()]
    stored = dataset_name(Path(named))
    alike = [stored] if stored in known else get_close_matches(stored, known, n=1)
    hint = f" Did you mean {alike[0]}?" if alike else ""
    raise UsageError(f"There is no data set {named!r}.{hint} List them: redkiln datasets")


def print_dataset(session: Session, dataset: DatasetView) -> None:
    """Print everything that is known about a data set."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows: list[tuple[str, Text | str | None]] = [
        ("name", Text(dataset.name, style="bold")),
        ("id", dataset.id),
        ("status", Text(str(dataset.status), style=STATUS_STYLES.get(dataset.status, ""))),
        ("task", dataset.task),
        ("kind", kind_words(dataset)),
        ("target", dataset.target),
        ("rows" if dataset.columns else "images", count_words(dataset)),
        ("classes", class_words(dataset)),
        ("labels", label_words(dataset)),
        ("boxes", box_words(dataset)),
        ("box sizes", size_words(dataset)),
        ("masks", mask_words(dataset)),
        ("sizes", ", ".join(f"{size} ({words.count(n)})" for size, n in
                            list(dataset.image_sizes.items())[:5]) or None),
        ("modes", ", ".join(f"{mode} ({words.count(n)})" for mode, n in
                            dataset.image_modes.items()) or None),
        ("sha256", Text(dataset.sha256, style="dim") if dataset.sha256 else None),
        ("options", option_words(dataset)),
        ("missing", missing_words(dataset)),
        ("skipped", skipped_words(dataset) if dataset.num_skipped else None),
    ]  # fmt: skip
    for label, value in rows:
        if value is not None:
            table.add_row(label, value)
    session.out.print(table)
    if dataset.columns:
        print_columns(session, dataset)
    for note in dataset.notes:
        if _SKIPPED_NOTE.search(note) is None:  # each is listed below, with its reason
            session.say(Text(f"note: {as_options(note)}", style="dim"), is_prose=True)
    if dataset.errors:
        print_invalid_dataset(session.out, dataset)
        return
    for warning in dataset.warnings:
        session.say(warning_line(warning, dataset), is_prose=True)
    shown = dataset.skipped[:MOST_SKIPPED]
    for problem in shown:
        session.say(Text(f"skipped {problem.path or ''}: {problem.message}", style="yellow"))
    if shown and (rest := dataset.num_skipped - len(shown)) > 0:
        session.say(Text(f"and {rest} more", style="yellow"))


def _row(item: DatasetView) -> tuple[Text | str, ...]:
    samples = sum(sum(split.values()) for split in item.counts.values())
    return (
        item.name,
        Text(str(item.status), style=STATUS_STYLES.get(item.status, "")),
        str(len(item.classes)) if item.classes else "",
        words.count(samples) if samples else "",
        words.size(item.size_bytes) if item.size_bytes is not None else "",
        words.ago(item.created_at) if item.created_at else "",
        Text(item.id, style="dim"),
    )
