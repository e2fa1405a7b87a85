"""Rows of a table by the columns of its file, for people: dates instead of their parts."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from numpy.typing import NDArray

from redkiln.tables import DAYS_SINCE, Derived
from worker.trainer.tables.table import Table

Cell = int | float | str | None
"""A number or a category; None if it is missing."""
Read = Callable[[int], Cell]
"""Returns the cell of a row."""
Parts = list[tuple[Derived, Read]]
"""The columns that were derived from one column of the file."""
MOST_COLUMNS = 30
"""Columns that a text for people shows."""


def open_inputs(table: Table) -> dict[str, Read]:
    """Return the model's columns by name, those that were derived from others included."""
    numbers, codes = iter(table.numbers.T), iter(table.codes.T)
    return {
        column.name: partial(_read_category, next(codes), column.categories)
        if column.type == "categorical"
        else partial(_read_number, next(numbers))
        for column in table.index.columns
    }


def open_columns(table: Table) -> dict[str, Read]:
    """Return the features of a table's file, by their names there and in its order.

    A column of dates is read from the numbers that were derived from it, and a column of prose as
    the words that the model knows.
    """
    inputs = open_inputs(table)
    columns: dict[str, Read] = {}
    parts: dict[str, Parts] = {}
    for column in table.index.columns:
        read, origin = inputs[column.name], column.derived
        if origin is None:
            columns[column.name] = read
        elif origin.part != DAYS_SINCE:
            known = parts.setdefault(origin.column, [])
            known.append((origin, read))
            columns[origin.column] = partial(_read_origin, known)
    return columns


def open_rows(
    table: Table, *, most_columns: int = MOST_COLUMNS
) -> Callable[[Iterable[int]], list[str]]:
    """Return a function that describes rows, such as `line 7: age=42, job=nurse`.

    A gap is a `?`. The place in the file is left out if it is not known.
    """
    columns = list(open_columns(table).items())
    end = ", ..." if len(columns) > most_columns else ""

    def describe(row: int) -> str:
        cells = [(name, read(row)) for name, read in columns[:most_columns]]
        texts = (f"{name}={'?' if cell is None else cell}" for name, cell in cells)
        place = None if table.places is None else table.places[row].as_py()
        return f"{'' if place is None else f'{place}: '}{', '.join(texts)}{end}"

    return lambda rows: [describe(int(row)) for row in rows]


def _read_category(codes: NDArray[np.int32], categories: list[str], row: int) -> Cell:
    code = int(codes[row])
    return categories[code] if code >= 0 else None


def _read_number(values: NDArray[np.float32], row: int) -> Cell:
    value = values[row]
    if np.isnan(value):
        return None
    # The shortest text of a float32: 0.1, not 0.10000000149.
    number = float(str(value))
    return int(number) if number.is_integer() else number


def _read_origin(parts: Parts, row: int) -> Cell:
    """Return the date, or the known words, that numbers were derived from."""
    words = [origin.word for origin, read in parts if origin.word and read(row)]
    if words:
        return " ".join(words)
    numbers = {origin.part: read(row) for origin, read in parts}
    ordinal, hour = numbers.get("ordinal"), numbers.get("hour")
    if not isinstance(ordinal, (int, float)):
        return None
    days, seconds = divmod(round(ordinal * 24) * 3600, 86400)
    if isinstance(hour, (int, float)):
        # As a float32, the number of days is known to three minutes, but the hour to the second.
        days, seconds = round(ordinal - hour / 24), round(hour * 3600)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days, seconds=seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00").removesuffix(" 00:00")
