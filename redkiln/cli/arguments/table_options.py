"""Options that describe a table, shared by `push` and `train`."""

from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer

from redkiln.cli.problems import UsageError
from redkiln.tables import IMAGE_TASKS, MISSING_WORDS, TABLE_TASKS, ColumnUse

TABLE_TYPES = ", ".join(get_args(ColumnUse))


def _option(flag: str, text: str, **others: Any) -> Any:
    panel = "Tables (CSV, TSV, JSON lines, Parquet); what you do not give is inferred"
    return typer.Option(flag, help=text, rich_help_panel=panel, **others)


@dataclass(frozen=True)
class TableArguments:
    """The table options of one command line; None for those that the user did not give."""

    task: Annotated[
        str | None, _option("--task", f"{', '.join((*TABLE_TASKS, *IMAGE_TASKS))}.", metavar="TASK")
    ] = None
    target: Annotated[str | None, _option("--target", "Column to predict.", metavar="COLUMN")] = (
        None
    )
    text: Annotated[
        str | None, _option("--text", "Column with the text to classify.", metavar="COLUMN")
    ] = None
    columns: Annotated[
        list[str] | None,
        _option("--column", f"Use a column as: {TABLE_TYPES}. Repeatable.", metavar="NAME=TYPE"),
    ] = None
    header: Annotated[
        bool | None,
        _option(
            "--header/--no-header", "Whether the first row names the columns.", show_default=False
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        _option(
            "--delimiter",
            "Separator between the fields of a CSV: one character, or `tab`.",
            metavar="CHAR",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        _option(
            "--encoding",
            "Encoding of a CSV that is neither Unicode nor Western European: gb18030, shift_jis, "
            "...",
            metavar="NAME",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _option(
            "--decimal",
            "Decimal mark of numbers: . or , (the other may separate thousands).",
            metavar="CHAR",
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        _option(
            "--missing",
            "A word that means a missing value; it replaces the default words "
            f"({', '.join(MISSING_WORDS)}). '' if only empty fields are missing. Repeatable.",
            metavar="WORD",
        ),
    ] = None
    classes: Annotated[
        list[str] | None,
        _option(
            "--class",
            "A class of the target, in the order of labels; give all or none. Repeatable.",
            metavar="NAME",
        ),
    ] = None

    labels_separator: Annotated[
        str | None,
        _option(
            "--labels-separator",
            "Separator of the labels in a cell of the target, such as ';' in css;java; "
            "a row can then have several labels. 'none': each cell is one class.",
            metavar="CHAR",
        ),
    ] = None

    skip_bad: Annotated[
        int | None,
        typer.Option(
            "--skip-bad",
            min=0,
            help="Skip up to this many unusable rows or image files; without it, up to 1 %.",
            metavar="N",
        ),
    ] = None

    def collect(self) -> dict[str, Any]:
        """Return the options that the user gave, as `Client.push_dataset` takes them.

        Raises:
            UsageError: A `--column` is not of the form NAME=TYPE.
        """
        options = {
            "task": self.task,
            "target": self.target,
            "text": self.text,
            "header": self.header,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "decimal": self.decimal,
            "columns": dict(_parse_use(column) for column in self.columns or ()) or None,
            "missing": [word.strip() for word in self.missing if word.strip()]
            if self.missing
            else None,
            "classes": self.classes or None,
            "labels_separator": self.labels_separator,
            "skip_bad": self.skip_bad,
        }
        return {name: value for name, value in options.items() if value is not None}


def _parse_use(column: str) -> tuple[str, str]:
    name, mark, use = column.rpartition("=")
    if not (name and mark):
        raise UsageError(f"--column {column}: write it as NAME=TYPE, with a type of {TABLE_TYPES}.")
    return name, use
