"""`redkiln predict`: runs an exported model on files, texts or rows."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from redkiln.cli.command import Session, command
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.model.boxes import (
    HEAD,
    check_draw,
    draw_each,
    list_columns,
    list_csv_rows,
    list_rows,
)
from redkiln.cli.model.opening import ModelName, VariantName, needing_libraries, open_model
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table

if TYPE_CHECKING:
    from redkiln.predict.description import Description
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
        "redkiln predict cars street.jpg --draw drawn/ --threshold 0.6",
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
        int | None,
        typer.Option("--top", min=1, metavar="N", show_default="1, or all labels that were found",
                     help="Classes, or boxes, to show for each input."),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FOLDER", file_okay=False, show_default=False,
                     help="Write each image with its boxes, or its mask, into a folder, as PNG."),
    ] = None,
    is_csv: Annotated[bool, typer.Option("--csv", help="Print CSV on stdout.")] = False,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="NAME", show_default=False,
                     help="Column of a table that has the texts; its number if the "
                     "table has no header."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", show_default=False,
                     help="Encoding of tables and text files that are neither Unicode nor Western "
                     "European: gb18030, shift_jis, ..."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option("--threshold", metavar="P", show_default=False,
                     help="Probability from which the rarer of two classes is the answer; `auto` "
                     "is the one in the report, with the highest F1 on validation. For a model "
                     "that finds objects, the smallest score of a box."),
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
        opened = open_model(
            session,
            model,
            variant=variant,
            threads=threads,
            column=column,
            encoding=encoding,
            threshold=_read_threshold(threshold),
        )
        items = opened.find_items(inputs, stdin=sys.stdin.buffer)
        check_draw(opened, draw)
        known = opened.description
        has_places = known.detection is not None or known.segmentation is not None
        is_single = known.thresholds is None and not has_places
        shown = 1 if top is None and is_single else top
        answers = opened.predict_items(items, batch_size=batch_size, top=shown)
        skipped: list[Skipped] = []
        found = _keep(_count(session, answers, opened.preparation.noun), skipped)
        found = draw_each(found, opened, draw)
        if is_csv:
            num = _write_csv(found, opened, top=shown)
        else:
            num = _show(session, list(found), skipped, opened, top=top)
    for note in opened.preparation.notes:
        session.note(note)
    if opened.is_threshold_usual:
        session.note(
            "--threshold auto changes nothing: the job found no threshold with a higher F1 than "
            "0.5. report.md lists what others find."
        )
    if draw is not None and num:
        session.note(f"The drawings are in {draw}/")
    _name_skipped(session, skipped)
    if not num:
        noun = opened.preparation.noun
        raise UsageError(
            f"None of the {noun} can be used." if skipped else f"The input contains no {noun}."
        )
    if skipped:
        raise typer.Exit(ExitCode.SKIPPED)


def _read_threshold(text: str | None) -> float | Literal["auto"] | None:
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        threshold = float(text)
    except ValueError:
        threshold = -1.0
    if not 0 < threshold < 1:
        raise UsageError(f"--threshold {text}: write `auto`, or a probability between 0 and 1.")
    return threshold


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


def _write_csv(found: Iterable["Prediction"], model: "Model", *, top: int | None) -> int:
    """Write predictions as they come; return their number."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    known = model.description
    writer.writerow(["input", *_head(known, top=top)])
    num = 0
    for num, one in enumerate(found, 1):  # noqa: B007 - the last one is the number
        writer.writerows(_rows(one, known))
    sys.stdout.flush()
    return num


def _rows(one: "Prediction", known: "Description") -> Iterable[list[str]]:
    return [[one.name, *_cells(one, known)]] if one.boxes is None else list_csv_rows(one)


def _head(known: "Description", *, top: int | None) -> list[str]:
    if known.is_regression:
        return [known.target]
    if known.detection is not None:
        return list(HEAD)
    if known.thresholds is not None:
        return ["labels", *known.classes]
    if known.segmentation is not None:
        return list(known.classes)
    head = ["class", "score"]
    for place in range(2, min(top or 1, len(known.classes)) + 1):
        head += [f"class_{place}", f"score_{place}"]
    return head


def _cells(one: "Prediction", known: "Description") -> list[str]:
    if one.value is not None:
        return [f"{one.value:.7g}"]
    if one.mask is not None:
        of_class = dict(one.scores)
        return [f"{of_class.get(name, 0.0):.6f}" for name in known.classes]
    if one.labels is not None:
        separator = known.preprocessing.get("labels_separator", ";")
        scores = dict(one.scores)
        shares = [f"{scores[name]:.6f}" if name in scores else "" for name in known.classes]
        return [separator.join(one.labels), *shares]
    return [cell for name, score in one.scores for cell in (name, f"{score:.6f}")]


def _show(
    session: Session,
    found: list["Prediction"],
    skipped: list["Skipped"],
    model: "Model",
    *,
    top: int | None,
) -> int:
    """Print predictions as a table or as JSON; return their number."""
    if session.is_json:
        if found:
            from redkiln.predict.document import build_document

            name = str(Path(model.description.path))
            session.emit(build_document(found, skipped, model, name=name))
        return len(found)
    known = model.description
    if known.is_regression:
        columns = [Column("input", when_narrow="cut"), Column(known.target, is_right=True)]
        rows = [[one.name, f"{one.value:.6g}"] for one in found]
    elif known.detection is not None:
        columns, rows = list_columns(), list(list_rows(found))
        if (empty := sum(not one.boxes for one in found)) > 0:
            session.note(
                f"Nothing in {empty:,} of {len(found):,} images has a score of at least "
                f"{words.percent(model.least_score)}. --threshold sets another one."
            )
    else:
        head = "class" if known.thresholds is None else "label"
        columns = [Column("input", when_narrow="cut"), Column(head, when_narrow="cut")]
        columns.append(Column("score" if known.segmentation is None else "pixels", is_right=True))
        rows = [
            [one.name if not place else "", name, score]
            for one in found
            for place, (name, score) in enumerate(_list_scores(one, top=top))
        ]
    if found:
        print_table(session.out, columns, rows)
    return len(found)


def _list_scores(one: "Prediction", *, top: int | None) -> list[tuple[str, str]]:
    """Return the classes to show for an input; of several labels those that were found."""
    scores = one.scores
    if one.labels is not None and top is None:
        scores = [(name, score) for name, score in scores if name in one.labels]
    return [(name, words.percent(score)) for name, score in scores] or [("no label", "")]


def _name_skipped(session: Session, skipped: list["Skipped"]) -> None:
    for one in skipped[:MOST_NAMED]:
        session.note(f"Skipped {one.name}: {one.reason}")
    if len(skipped) > MOST_NAMED:
        session.note(f"and {len(skipped) - MOST_NAMED} more; --json lists all of them")
