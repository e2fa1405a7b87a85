"""`redkiln predict`: runs an exported model on files, texts or rows."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from redkiln.cli.command import Session, command
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.model.opening import ModelName, VariantName, needing_libraries, open_model
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table

if TYPE_CHECKING:
    from redkiln.predict.items import Skipped
    from redkiln.predict.model import Model, Prediction

MOST_NAMED = 20
"""Skipped inputs that are named one by one."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "predict", rich_help_panel="Results", examples=(
        "redkiln predict last photo.jpg",
        "redkiln predict out/flowers/model.onnx photos/ 'more/*.png' --top 3",
        "redkiln predict houses new-houses.csv --csv > prices.csv",
        "redkiln predict messages 'You won a prize!' --json",
        "find . -name '*.jpg' | redkiln predict flowers -",
    ))(predict)  # fmt: skip


def predict(
    session: Session,
    model: ModelName,
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", show_default=False, help="Images, folders or patterns; "
                       "tables (CSV, TSV, JSON lines); texts or files with one text a line; `-` "
                       "for stdin."),
    ],
    variant: VariantName = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Classes to show for each input.")
    ] = 1,
    is_csv: Annotated[bool, typer.Option("--csv", help="Print CSV on stdout.")] = False,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="NAME", show_default=False,
                     help="Column of a table that has the texts; its number if the "
                     "table has no header."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=4096, metavar="N",
                          help="Samples that the model gets at once.")
    ] = 32,
    threads: Annotated[
        int, typer.Option("--threads", min=0, metavar="N", help="Threads; 0 for one on each core.")
    ] = 0,
) -> None:  # fmt: skip
    """Predict with an exported model on this machine.

    The model prepares inputs as for training. A job's files are downloaded once,
    after that neither service nor network is needed. Inputs that cannot be read
    are named and skipped, and the exit status is then 7.
    """
    if is_csv and session.is_json:
        raise UsageError("Give either --json or --csv.")
    with needing_libraries():
        opened = open_model(session, model, variant=variant, threads=threads, column=column)
        items = opened.find_items(inputs, stdin=sys.stdin.buffer)
        answers = opened.predict_items(items, batch_size=batch_size, top=top)
        skipped: list[Skipped] = []
        found = _keep(_count(session, answers, opened.preparation.noun), skipped)
        if is_csv:
            num = _write_csv(found, opened, top=top)
        else:
            num = _show(session, list(found), skipped, opened)
    for note in opened.preparation.notes:
        session.note(note)
    _name_skipped(session, skipped)
    if not num:
        noun = opened.preparation.noun
        raise UsageError(
            f"None of the {noun} can be used." if skipped else f"The input contains no {noun}."
        )
    if skipped:
        raise typer.Exit(ExitCode.SKIPPED)


def _count(
    session: Session, answers: Iterable["Prediction | Skipped"], noun: str
) -> Iterator["Prediction | Skipped"]:
    """Pass answers on and show how many there are, at a terminal."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.completed:,.0f} " + noun), TimeElapsedColumn(),
        console=session.notes, disable=not session.notes.is_terminal, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        for answer in answers:
            bar.advance(task)
            yield answer


def _keep(
    answers: Iterable["Prediction | Skipped"], skipped: list["Skipped"]
) -> Iterator["Prediction"]:
    from redkiln.predict.items import Skipped

    for answer in answers:
        if isinstance(answer, Skipped):
            skipped.append(answer)
        else:
            yield answer


def _write_csv(found: Iterable["Prediction"], model: "Model", *, top: int) -> int:
    """Write predictions as they come; return their number."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    known = model.description
    shown = min(top, len(known.classes))
    head = [known.target] if known.is_regression else ["class", "score"]
    for place in range(2, shown + 1):
        head += [f"class_{place}", f"score_{place}"]
    writer.writerow(["input", *head])
    num = 0
    for num, one in enumerate(found, 1):  # noqa: B007 - the last one is the number
        writer.writerow([one.name, *_cells(one)])
    sys.stdout.flush()
    return num


def _cells(one: "Prediction") -> list[str]:
    if one.value is not None:
        return [f"{one.value:.7g}"]
    return [cell for name, score in one.scores for cell in (name, f"{score:.6f}")]


def _show(
    session: Session, found: list["Prediction"], skipped: list["Skipped"], model: "Model"
) -> int:
    """Print predictions as a table or as JSON; return their number."""
    if session.is_json:
        if found:
            session.emit(_document(found, skipped, model))
        return len(found)
    known = model.description
    if known.is_regression:
        columns = [Column("input", when_narrow="cut"), Column(known.target, is_right=True)]
        rows = [[one.name, f"{one.value:.6g}"] for one in found]
    else:
        columns = [Column("input", when_narrow="cut"), Column("class", when_narrow="cut")]
        columns.append(Column("score", is_right=True))
        rows = [
            [one.name if not place else "", name, words.percent(score)]
            for one in found
            for place, (name, score) in enumerate(one.scores)
        ]
    if found:
        print_table(session.out, columns, rows)
    return len(found)


def _document(
    found: list["Prediction"], skipped: list["Skipped"], model: "Model"
) -> dict[str, Any]:
    known = model.description
    return {
        "model": str(Path(known.path)),
        "job_id": known.job_id,
        "task": known.task,
        "verified": known.verified,
        "predictions": [
            {
                "input": one.name,
                **(
                    {"value": one.value}
                    if one.value is not None
                    else {
                        "class": one.answer,
                        "scores": [{"class": name, "score": score} for name, score in one.scores],
                    }
                ),
            }
            for one in found
        ],
        "skipped": [{"input": one.name, "reason": one.reason} for one in skipped],
    }


def _name_skipped(session: Session, skipped: list["Skipped"]) -> None:
    for one in skipped[:MOST_NAMED]:
        session.note(f"Skipped {one.name}: {one.reason}")
    if len(skipped) > MOST_NAMED:
        session.note(f"and {len(skipped) - MOST_NAMED} more; --json lists all of them")
