"""Options that describe a table, shared by `push` and `train`."""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

import typer

from redkiln.cli.problems import UsageError
from redkiln.tables import MISSING_WORDS, ColumnUse, TableTask

_PANEL = "Tables (CSV, TSV, JSON lines, Parquet); what you do not give is inferred"
TABLE_TYPES = ", ".join(get_args(ColumnUse))

Task = Annotated[
    str | None,
    typer.Option(
        "--task", help=f"{', '.join(get_args(TableTask))}.", rich_help_panel=_PANEL, metavar="TASK"
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="Column to predict.", rich_help_panel=_PANEL, metavar="COLUMN"),
]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text", help="Column with the text to classify.", rich_help_panel=_PANEL, metavar="COLUMN"
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help=f"Use a column as: {TABLE_TYPES}. Repeatable.",
        rich_help_panel=_PANEL,
        metavar="NAME=TYPE",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row names the columns.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="Separator between the fields of a CSV: one character, or `tab`.",
        rich_help_panel=_PANEL,
        metavar="CHAR",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        help="Decimal mark of numbers: . or , (the other may separate thousands).",
        rich_help_panel=_PANEL,
        metavar="CHAR",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        help=f"Words that mean 'no value', instead of {', '.join(MISSING_WORDS)}; '' if only "
        "empty fields do. Repeatable.",
        rich_help_panel=_PANEL,
        metavar="WORD",
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        help="A class of the target, in the order of labels; give all or none. Repeatable.",
        rich_help_panel=_PANEL,
        metavar="NAME",
    ),
]


def collect_options(
    columns: Sequence[str] | None,
    *,
    missing: Sequence[str] | None,
    classes: Sequence[str] | None,
    **others: Any,
) -> dict[str, Any]:
    """Return the options that the user gave, as `Client.push_dataset` takes them.

    Args:
        columns: Assignments `NAME=TYPE`.
        missing: Words for missing values; empty strings mean that there are none.
        classes: Class names by label; None or empty to infer them.
        others: Other options by name; None for those not given.

    Raises:
        UsageError: An item of `columns` is not of the form NAME=TYPE.
    """
    options = {name: value for name, value in others.items() if value is not None}
    uses: dict[str, str] = {}
    for column in columns or ():
        name, mark, use = column.rpartition("=")
        if not (name and mark):
            raise UsageError(
                f"--column {column}: write it as NAME=TYPE, with a type of {TABLE_TYPES}."
            )
        uses[name] = use
    if uses:
        options["columns"] = uses
    if missing:
        options["missing"] = [word.strip() for word in missing if word.strip()]
    if classes:
        options["classes"] = list(classes)
    return options
