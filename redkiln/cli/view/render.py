"""Tables that fit the terminal without cutting identifiers and numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP_COLUMNS = 3
"""Width of the gap between two columns of a table, in characters."""

NARROWEST = 10
"""A column is never cut to fewer characters than this."""


@dataclass(frozen=True)
class Column:
    """A column, and what happens to it if there is too little room.

    Attributes:
        head: Its heading.
        is_right: Whether it is right-aligned, as numbers are.
        when_narrow: `keep` it whole, `cut` it, `fold` it over lines, or `drop` it.
    """

    head: str
    is_right: bool = False
    when_narrow: Literal["keep", "cut", "fold", "drop"] = "keep"


def print_table(
    console: Console, columns: Sequence[Column], rows: Iterable[Sequence[Text | str]]
) -> None:
    """Print a table with a rule under its headings and no other lines."""
    console.print(build_table(columns, rows, room=console.width))


def build_table(
    columns: Sequence[Column], rows: Iterable[Sequence[Text | str]], *, room: int
) -> Table:
    """Build the table that `print_table` prints, for a width of `room` characters."""
    listed = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [
        max([len(column.head), *(row[index].cell_len for row in listed)])
        for index, column in enumerate(columns)
    ]
    shown = choose_columns(columns, widths, room=room)
    given = share_room(columns, widths, shown, room=room)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for index in shown:
        column = columns[index]
        is_folded = column.when_narrow == "fold"
        table.add_column(
            column.head,
            justify="right" if column.is_right else "left",
            no_wrap=not is_folded,
            overflow="fold" if is_folded else "ellipsis",
            width=given[index],
        )
    for row in listed:
        table.add_row(*(row[index] for index in shown))
    return table


def choose_columns(columns: Sequence[Column], widths: Sequence[int], *, room: int) -> list[int]:
    """Return the indices of the columns to show, dropping `drop` ones from the right until it fits.

    Args:
        columns: Columns of the table.
        widths: Width of each column's widest cell.
        room: Width of the terminal.
    """
    shown = list(range(len(columns)))
    droppable = [index for index in reversed(shown) if columns[index].when_narrow == "drop"]
    for index in droppable:
        if _excess(widths, shown, room) <= 0:
            break
        shown.remove(index)
    return shown


def share_room(
    columns: Sequence[Column], widths: Sequence[int], shown: Sequence[int], *, room: int
) -> dict[int, int]:
    """Return the width of each shown column, narrowing those that may be folded or cut.

    Args:
        columns: Columns of the table.
        widths: Width of each column's widest cell.
        shown: Indices of the columns that are shown.
        room: Width of the terminal.
    """
    given = {index: widths[index] for index in shown}
    excess = _excess(widths, shown, room)
    for kind in ("fold", "cut"):
        for index in shown:
            if columns[index].when_narrow == kind and excess > 0:
                taken = max(0, min(excess, given[index] - NARROWEST))
                given[index] -= taken
                excess -= taken
    return given


def _excess(widths: Sequence[int], shown: Sequence[int], room: int) -> int:
    return sum(widths[index] for index in shown) + GAP_COLUMNS * (len(shown) - 1) - room
