"""What the command line says about a table: the same options for `push` and `train`."""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

import typer

from redkiln.cli.problems import UsageError
from redkiln.tables import MISSING_WORDS, ColumnUse, TableTask

_PANEL = "Tables (CSV, TSV, JSON lines, Parquet); what is left out is inferred"
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
        "--text", help="Column of the text to classify.", rich_help_panel=_PANEL, metavar="COLUMN"
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help=f"What a column is: {TABLE_TYPES}. Repeatable.",
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
        help="Between the fields of a CSV: one character, or `tab`.",
        rich_help_panel=_PANEL,
        metavar="CHAR",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        help="Before the decimals of numbers: . or , (the other may separate thousands).",
        rich_help_panel=_PANEL,
        metavar="CHAR",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        help=f"What stands for no value, instead of {', '.join(MISSING_WORDS)}; '' for nothing "
        "else than an empty field. Repeatable.",
        rich_help_panel=_PANEL,
        metavar="WORD",
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        help="A class of the target, in the order of their labels; all or none. Repeatable.",
        rich_help_panel=_PANEL,
        metavar="NAME",
    ),
]


def collect_options(
    columns: Sequence[str] | None,
    *,
    missing: Sequence[str] | None,
    classes: Sequence[str] | None,
    **said: Any,
) -> dict[str, Any]:
    """The options that were given, as `Client.push_dataset` takes them.

    Args:
        columns: `NAME=TYPE` each.
        missing: words; empty ones say that there are no others.
        classes: names; none of them leaves the classes to be inferred.
        said: the others by name; None for what was not given.

    Raises:
        UsageError: a column is not written like this.
    """
    options = {name: value for name, value in said.items() if value is not None}
    uses: dict[str, str] = {}
    for column in columns or ():
        name, mark, use = column.rpartition("=")
        if not (name and mark):
            raise UsageError(f"--column {column}: write NAME=TYPE; types are {TABLE_TYPES}.")
        uses[name] = use
    if uses:
        options["columns"] = uses
    if missing:
        options["missing"] = [word.strip() for word in missing if word.strip()]
    if classes:
        options["classes"] = list(classes)
    return options
