"""Finds the dialect of a delimited text: its delimiter, its quotes, whether it has a header.

The rules are frozen (docs/decisions/0014-table-dialects-frozen.md): a file that they do not
recognise needs an option, not another rule.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from service.datasets.inspect.report import refuse
from service.datasets.inspect.tables.values import fold_missing, is_number

SAMPLE_BYTES = 1024**2
_SAMPLE_ROWS = 2000
_DELIMITERS = ("\t", ",", ";", "|")
_MAX_FIELD = 16 * 1024**2
_MAX_OPEN_LINES = 200
"""Maximum lines that a quoted value may span at the sample's end, where it may be cut off."""
_MAX_NAME = 100
_KNOWN_NAMES = frozenset({
    "label", "class", "target", "y", "text", "sentence", "message", "id", "name", "category",
    "split", "review", "sentiment",
})  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Attributes:
        first_rows: The first rows, including the header.
    """

    delimiter: str
    is_quoted: bool
    has_header: bool
    first_rows: list[list[str]]


@dataclass(frozen=True)
class _Reading:
    """A sample's rows with one delimiter, and how many have the most common number of fields."""

    delimiter: str
    is_quoted: bool
    rows: list[list[str]]
    num_fields: int
    num_regular: int
    num_rows: int

    @property
    def share(self) -> float:
        return self.num_regular / self.num_rows

    @property
    def share_of_numbers(self) -> float:
        """Share of the first rows' fields that are numbers."""
        cells = [cell for row in self.rows[:50] for cell in row]
        return sum(_is_any_number(cell) for cell in cells) / len(cells)


def find_dialect(
    path: Path,
    *,
    place: str | None,
    delimiter: str | None,
    header: bool | None,
    missing: Sequence[str],
) -> Dialect:
    """Find the dialect of a text from its first rows and the user's options.

    Args:
        path: The text file, in UTF-8.
        place: The file's name in its archive, for messages.
        delimiter: The delimiter, if the user gave one.
        header: Whether the first row names the columns, if the user said so.
        missing: Words that mean a missing value.

    Raises:
        Refused: No delimiter splits the text into columns.
    """
    csv.field_size_limit(_MAX_FIELD)
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
        is_cut = bool(file.read(1))
    text = sample.decode(errors="ignore")
    if is_cut:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    candidates = [delimiter] if delimiter else _DELIMITERS
    readings = [_read(text, mark, is_cut=is_cut) for mark in candidates]
    usable = [reading for reading in readings if reading is not None and reading.num_fields > 1]
    if not usable:
        tried = f"the delimiter {delimiter!r}" if delimiter else "a comma, tab, semicolon or |"
        message = f"has only one column: no row contains {tried}; set delimiter=CHAR"
        raise refuse("one_column", message, place)
    # With decimal commas, every row may have as many commas as it has delimiters.
    best = max(usable, key=lambda reading: (reading.share, reading.share_of_numbers))
    has_header = _looks_named(best.rows, missing) if header is None else header
    return Dialect(best.delimiter, best.is_quoted, has_header, best.rows)


def _read(text: str, delimiter: str, *, is_cut: bool) -> _Reading | None:
    plain = _reading(text, delimiter, is_quoted=False)
    if f'{delimiter}"' not in text and not text.startswith('"') and '\n"' not in text:
        if plain is None:
            return None
        # No value is quoted so far. A later row of a CSV may be; in a TSV a quote is plain text.
        return replace(plain, is_quoted=delimiter != "\t")
    quoted = _reading(text, delimiter, is_quoted=True)
    if quoted is None or plain is None or _is_well_quoted(text, delimiter, is_cut=is_cut):
        return quoted or plain
    # Unbalanced quotes are part of the text, especially in a TSV, which needs no quotes.
    ordered = (plain, quoted) if delimiter == "\t" else (quoted, plain)
    return max(ordered, key=lambda reading: reading.num_regular)


def _reading(text: str, delimiter: str, *, is_quoted: bool) -> _Reading | None:
    lines = io.StringIO(text, newline="")
    if is_quoted:
        reader = csv.reader(lines, delimiter=delimiter)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    counts: Counter[int] = Counter()
    rows: list[list[str]] = []
    for row in _without_errors(reader):
        if row:
            counts[len(row)] += 1
            if len(rows) < _SAMPLE_ROWS:
                rows.append(row)
    if not rows:
        return None
    num_fields, num_regular = counts.most_common(1)[0]
    return _Reading(delimiter, is_quoted, rows, num_fields, num_regular, counts.total())


def _without_errors(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue


def _is_well_quoted(text: str, delimiter: str, *, is_cut: bool) -> bool:
    """Return whether each quote that opens at a field's begin closes at its end."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 0
    try:
        for _ in reader:
            line = reader.line_num
    except csv.Error as error:
        is_open_at_the_end = "unexpected end" in str(error)
        return is_cut and is_open_at_the_end and reader.line_num - line <= _MAX_OPEN_LINES
    return True


def _looks_named(rows: list[list[str]], missing: Sequence[str]) -> bool:
    """Return whether the first row is a header.

    It is if one of its cells is a well-known column name that does not occur again below it. Else
    it is if none of its cells is a number, and a column below has numbers or no cell is repeated.
    """
    first, rest = rows[0], rows[1:]
    cells = [cell.strip() for cell in first]
    named = [cell for cell in cells if cell]
    if not named:
        return False
    whole = [row for row in rest if len(row) == len(first)]
    below = [set(column) for column in zip(*whole, strict=True)] or [set() for _ in first]
    is_repeated = [cell in column for cell, column in zip(first, below, strict=True)]
    # Other cells may be numbers: pandas writes numbers for columns without names.
    if any(
        cell.casefold() in _KNOWN_NAMES and not is_repeated[at] for at, cell in enumerate(cells)
    ):
        return True
    if any(_is_any_number(cell) for cell in named):
        return False
    if not rest:
        return True
    if any(len(cell) > _MAX_NAME for cell in named) or len(named) < len(cells) - 1:
        return False
    if any(_is_any_number(cell) for row in rest[:50] for cell in row):
        return _numbers_below(cells, rest, missing)
    return not any(is_repeated)


def _is_any_number(cell: str) -> bool:
    """Return whether a cell is a number, whatever its commas mean; column names are not."""
    return is_number(cell.replace(",", ""))


def _numbers_below(cells: list[str], rest: list[list[str]], missing: Sequence[str]) -> bool:
    """Return whether a column mostly has numbers below its first cell, which is not a number."""
    absent = fold_missing(missing)
    for position in range(len(cells)):
        column = [row[position].strip() for row in rest if len(row) > position]
        present = [value for value in column if value.casefold() not in absent]
        if present and sum(map(_is_any_number, present)) > len(present) / 2:
            return True
    return False
