"""The columns of a data set's table: what each column is used as and what it holds."""

from rich.text import Text

from redkiln.cli.command import Session
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.dataset import ColumnView, DatasetView

SHOWN = 60
"""Columns that are listed, besides the target; more would scroll everything else away."""
_STYLES = {"target": "bold green", "split": "green", "ignored": "dim"}


def print_columns(session: Session, dataset: DatasetView) -> None:
    """Print the columns of a table, one a line."""
    heads = (
        Column("column", when_narrow="cut"),
        Column("used as"),
        Column("missing", is_right=True),
        Column("holds", when_narrow="fold"),
    )
    session.say("")
    hidden = [column for column in dataset.columns[SHOWN:] if column.type != "target"]
    targets = [column for column in dataset.columns[SHOWN:] if column.type == "target"]
    shown = [*dataset.columns[:SHOWN], *targets]
    print_table(session.out, heads, [_row(column) for column in shown])
    if hidden:
        rest = words.plural(len(hidden), "more column")
        session.say(Text(f"and {rest}: redkiln datasets show {dataset.id} --json", "dim"))
    session.say("")


def _row(column: ColumnView) -> tuple[Text | str, ...]:
    style = _STYLES.get(column.type, "")
    return (
        Text(column.name, style),
        Text(column.type, style),
        words.count(column.num_missing) if column.num_missing else "",
        Text(describe(column), "dim" if column.type == "ignored" else ""),
    )


def describe(column: ColumnView) -> str:
    """Describe in words what a column holds."""
    if column.note:
        return column.note
    if column.minimum is not None and column.maximum is not None:
        mean = f", mean {words.number(column.mean)}" if column.mean is not None else ""
        return f"{column.minimum:.6g} to {column.maximum:.6g}{mean}"
    if column.num_categories is not None:
        shown = ", ".join(column.categories[:5])
        more = ", ..." if column.num_categories > 5 else ""
        return f"{words.count(column.num_categories)}: {shown}{more}"
    return ""
