"""A table as it was read: columns of text or numbers, whose rows are still known by their place."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.report import MAX_LISTED


@dataclass
class BadRows:
    """Rows that could not be read at all: their numbers, and why the first ones could not."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def add(self, number: int, code: str, message: str) -> None:
        """Note a row, by its number from 1 among all rows of the file."""
        self.numbers.append(number)
        if len(self.reasons) < MAX_LISTED:
            self.reasons.append((code, message))


@dataclass
class RawTable:
    """The rows of one file.

    Attributes:
        path: of the file in its archive or folder; None for one that was uploaded alone.
        names: of the columns.
        columns: text (`string`), or numbers (`double`) where the format has such.
        bad: rows that are not in `columns`.
        first_row: number that the first row has; 2 below a header.
        unit: what a row's number counts; lines of a text, or rows.
        delimiter: between the fields of a delimited text.
    """

    path: str | None
    names: list[str]
    columns: list[pa.ChunkedArray]
    bad: BadRows
    first_row: int = 1
    unit: str = "line"
    delimiter: str | None = None
    notes: list[str] = field(default_factory=list)
    _left_out: "array[int]" = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        self.note_left_out(self.bad.numbers)

    @property
    def num_rows(self) -> int:
        """Rows that were read."""
        return len(self.columns[0]) if self.columns else 0

    def place(self, index: int) -> str:
        """Where a row is, by its index among those that were read."""
        return self._words(self.number_of(index))

    def number_of(self, index: int) -> int:
        """The number of a row among all of the file, by its index among those that were read."""
        number = self.first_row + index
        # Each row before it that is not among them moves it down, perhaps behind a further one.
        passed = 0
        while passed < (now := bisect_left(self._left_out, number + 1)):
            number += now - passed
            passed = now
        return number

    def note_left_out(self, numbers: Iterable[int]) -> None:
        """Rows by these numbers are no longer among those that were read."""
        self._left_out = array("q", sorted([*self._left_out, *numbers]))

    def bad_place(self, position: int) -> str:
        """Where a row is that was not read, by its position in `bad`."""
        return self._words(self.bad.numbers[position])

    def _words(self, number: int) -> str:
        # A line of JSON writes the breaks of its texts as escapes.
        line = number + (self._num_breaks(number) if self.delimiter is not None else 0)
        here = f"{self.unit} {line}"
        return here if self.path is None else f"{self.path}, {here}"

    def _num_breaks(self, number: int) -> int:
        """Line breaks inside the quoted values of the rows before one."""
        before = number - self.first_row - bisect_left(self._left_out, number)
        if before <= 0:
            return 0
        texts = [c.slice(0, before) for c in self.columns if pa.types.is_string(c.type)]
        return sum(pc.sum(pc.count_substring(text, "\n")).as_py() or 0 for text in texts)
