"""A table as it was read: columns of texts or numbers, with the place of each row in its file."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.report import MAX_LISTED


@dataclass
class BadRows:
    """Rows that could not be read: their numbers, and the reasons for the first ones."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def add(self, number: int, code: str, message: str) -> None:
        """Add a row by its number among all rows of the file, counted from 1."""
        self.numbers.append(number)
        if len(self.reasons) < MAX_LISTED:
            self.reasons.append((code, message))


@dataclass
class RawTable:
    """The rows of one file.

    Attributes:
        path: Path of the file in its archive or folder; None for a single uploaded table.
        names: Names of the columns.
        columns: Texts (`string`), or numbers (`double`) if the format has numbers.
        bad: Rows that could not be read and are not in `columns`.
        first_row: Number of the first row; 2 below a header.
        unit: The unit of row numbers: `line` or `row`.
        delimiter: Delimiter of a delimited text.
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
        """Number of rows that were read."""
        return len(self.columns[0]) if self.columns else 0

    def place(self, index: int) -> str:
        """Return the place of a row, by its index among the rows that were read."""
        return self._words(self.number_of(index))

    def list_places(self, rows: np.ndarray) -> pa.Array:
        """Return the places (N,) of many rows, by their indices among the rows that were read."""
        left_out = np.asarray(self._left_out, np.int64)
        numbers = np.arange(self.first_row + self.num_rows + len(left_out))
        lines = np.delete(numbers, left_out)[self.first_row + rows]
        if self.delimiter is not None:
            lines += (np.cumsum(self._breaks) - self._breaks)[rows]
        unit = self.unit if self.path is None else f"{self.path}, {self.unit}"
        return pc.binary_join_element_wise(unit, pa.array(lines).cast(pa.string()), " ")

    def number_of(self, index: int) -> int:
        """Return the number of a row in the file, by its index among the rows that were read."""
        number = self.first_row + index
        # Each left-out row before it shifts it down, perhaps past another left-out row.
        passed = 0
        while passed < (now := bisect_left(self._left_out, number + 1)):
            number += now - passed
            passed = now
        return number

    def note_left_out(self, numbers: Iterable[int]) -> None:
        """Record that the rows with these numbers are not among the rows that were read."""
        self._left_out = array("q", sorted([*self._left_out, *numbers]))
        self.__dict__.pop("_breaks", None)  # the columns have fewer rows now

    def bad_place(self, position: int) -> str:
        """Return the place of a row that could not be read, by its position in `bad`."""
        return self._words(self.bad.numbers[position])

    def _words(self, number: int) -> str:
        # Only delimited texts have line breaks inside values; JSON escapes them.
        line = number + (self._num_breaks(number) if self.delimiter is not None else 0)
        here = f"{self.unit} {line}"
        return here if self.path is None else f"{self.path}, {here}"

    def _num_breaks(self, number: int) -> int:
        """Count the line breaks inside quoted values before a row."""
        before = number - self.first_row - bisect_left(self._left_out, number)
        return int(self._breaks[:before].sum()) if before > 0 else 0

    @cached_property
    def _breaks(self) -> np.ndarray:
        """(N,) int32 line breaks inside the values of each row; counted once for many places."""
        breaks = np.zeros(self.num_rows, np.int32)
        for column in self.columns:
            if pa.types.is_string(column.type):
                breaks += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
        return breaks
