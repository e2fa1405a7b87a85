"""Reads CSV and TSV: every field as text; rows of another length are set aside."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from service.datasets.inspect.limits import MIB
from service.datasets.inspect.report import Refused, refuse
from service.datasets.inspect.tables.dialect import Dialect, find_dialect
from service.datasets.inspect.tables.raw import BadRows, RawTable

MAX_ROW_BYTES = 8 * MIB
_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "|", " ": "space"}


def read_delimited(
    path: Path,
    *,
    place: str | None,
    delimiter: str | None,
    header: bool | None,
    missing: Sequence[str],
) -> RawTable:
    """Read a delimited text in UTF-8.

    Args:
        path: The text file.
        place: The file's name in its archive, for messages.
        delimiter: The delimiter, if the user gave one.
        header: Whether the first row names the columns, if the user said so.
        missing: Words that mean a missing value.

    Raises:
        Refused: The text has only one column, or a row is too long.
    """
    dialect = find_dialect(path, place=place, delimiter=delimiter, header=header, missing=missing)
    num_fields = len(dialect.first_rows[0])
    bad = BadRows()
    columns = _parse(path, dialect, num_fields, bad, place=place)
    names, notes = _name(dialect, num_fields)
    first_row = 1
    if dialect.has_header:
        columns = [column.slice(1) for column in columns]
        first_row = 2
    table = RawTable(
        place, names, columns, bad, first_row=first_row, delimiter=dialect.delimiter, notes=notes
    )
    if delimiter is None and dialect.delimiter not in ",\t":
        table.notes.append(f"fields are separated by {_NAMES[dialect.delimiter]}")
    return table


def drop_empty_rows(table: RawTable) -> None:
    """Remove rows without any value (blank lines) without reporting them."""
    is_empty: np.ndarray | None = None
    for column in table.columns:
        if not pa.types.is_string(column.type):
            return
        empty = pc.equal(column, "").to_numpy()
        is_empty = empty if is_empty is None else is_empty & empty
        if not is_empty.any():
            return
    if is_empty is None:
        return
    numbers = [table.number_of(int(index)) for index in np.flatnonzero(is_empty)]
    table.columns = [column.filter(pa.array(~is_empty)) for column in table.columns]
    table.note_left_out(numbers)


def _parse(
    path: Path, dialect: Dialect, num_fields: int, bad: BadRows, *, place: str | None
) -> list[pa.ChunkedArray]:
    def set_aside(row: pa.csv.InvalidRow) -> str:
        message = (
            f"has {row.actual_columns} fields, but the first row has {row.expected_columns}"
            f"{_explain(row, dialect)}"
        )
        bad.add(row.number, "wrong_number_of_fields", message)
        return "skip"

    names = [f"f{position}" for position in range(num_fields)]
    try:
        table = pa.csv.read_csv(
            path,
            # Rows have numbers only if a single thread reads them.
            read_options=pa.csv.ReadOptions(
                use_threads=False, column_names=names, block_size=MAX_ROW_BYTES
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char='"' if dialect.is_quoted else False,
                newlines_in_values=dialect.is_quoted,
                ignore_empty_lines=False,
                invalid_row_handler=set_aside,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _explain_failure(path, error, place=place) from None
    return list(table.columns)


def _explain(row: pa.csv.InvalidRow, dialect: Dialect) -> str:
    if row.actual_columns < row.expected_columns:
        return "; add the missing fields"
    if not dialect.is_quoted:
        return ""
    if row.text.count('"') % 2:
        return '; a quote (") is not closed'
    name = _NAMES.get(dialect.delimiter, "delimiter")
    return f"; put quotes around values that contain a {name}"


def _explain_failure(path: Path, error: Exception, *, place: str | None) -> Refused:
    for number, length in _lines(path):
        if length > MAX_ROW_BYTES:
            here = f"line {number}" if place is None else f"{place}, line {number}"
            message = f"is longer than {MAX_ROW_BYTES} bytes; shorten its text or remove the row"
            return refuse("row_too_long", message, here)
    if "straddl" in str(error):
        message = (
            f"has a quoted value longer than {MAX_ROW_BYTES} bytes; probably its quote is not "
            "closed"
        )
        return refuse("open_quote", message, place)
    return refuse("bad_table", f"cannot be read: {error}", place)


def _lines(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the numbers and lengths of the lines; a line that is too long may come in pieces."""
    number, length = 1, 0
    with path.open("rb") as file:
        while piece := file.readline(MAX_ROW_BYTES + 2):
            length += len(piece)
            if piece.endswith(b"\n") or length > MAX_ROW_BYTES:
                yield number, length
                number, length = number + 1, 0


def _name(dialect: Dialect, num_fields: int) -> tuple[list[str], list[str]]:
    if dialect.has_header:
        names = [cell.strip() for cell in dialect.first_rows[0]]
        return [name or f"column_{place}" for place, name in enumerate(names, 1)], []
    rows = dialect.first_rows
    names = [f"column_{place}" for place in range(1, num_fields + 1)]
    if num_fields == 2:
        names = _recognise(rows) or names
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    note = f"the first row is data, not a header, so the columns are named {shown}"
    return names, [note]


def _recognise(rows: list[list[str]]) -> list[str] | None:
    """Name two columns `label` and `text` if one has few values and the other is prose."""
    pairs = [row for row in rows if len(row) == 2]
    sides = list(zip(*pairs, strict=True))
    words = [sum(value.count(" ") for value in side) / len(side) for side in sides]
    kinds = [len(set(side)) / len(side) for side in sides]
    for label, text in ((0, 1), (1, 0)):
        if words[text] >= 2 and words[label] < 1 and kinds[label] < min(0.5, kinds[text]):
            return ["label", "text"] if label == 0 else ["text", "label"]
    return None
