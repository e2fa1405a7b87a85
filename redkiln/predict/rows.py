"""Rows of a table as inputs: numbers and category codes, read as for training.

Shapes: B batch, F numeric columns, K categorical columns.
"""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from redkiln.cells.amounts import PERCENT, Amount, read_amount
from redkiln.cells.prose import find_words
from redkiln.dates import derive_from_date, read_date
from redkiln.errors import ModelError
from redkiln.predict.decoding import Decoder
from redkiln.predict.delimited import read_tables
from redkiln.predict.items import Arrays, InputError, Item
from redkiln.predict.row_notes import Doubt, RowNotes
from redkiln.tables import DAYS_SINCE, MISSING_WORDS

NUMBERS, CODES = "numbers", "codes"
MOST_NAMED = 20
LARGEST = float(np.finfo(np.float32).max)
_NUMBER_AND_UNIT = re.compile(
    r"^[+-]?[^\d\s.,+-]{1,5}\s*[\d.,]*\d$|^[+-]?[\d.,]*\d\s*[^\d\s.,]{1,5}[23]?$"
)


@dataclass(frozen=True)
class ReadRow:
    """One row: (F,) numbers with NaN where missing, and (K,) codes with -1 where missing."""

    numbers: list[float]
    codes: list[int]


class RowPreparation:
    """Reads rows from CSV, TSV and JSON lines.

    A category that the training table lacks counts as missing, as in the test split.

    Args:
        preprocessing: The model's preprocessing.
        encoding: Encoding of the tables; None to find it.
        leaks: Warnings of columns that predict the target by themselves.
    """

    noun = "rows"
    is_costly = False

    def __init__(
        self,
        preprocessing: dict[str, Any],
        *,
        encoding: str | None = None,
        leaks: Sequence[str] = (),
    ) -> None:
        parts = {part["name"]: part for part in preprocessing["inputs"]}
        self._numbers: dict[str, Any] = parts.get(NUMBERS, {})
        self._codes: dict[str, Any] = parts.get(CODES, {})
        self._places = {
            name: {category: place for place, category in enumerate(categories)}
            for name, categories in self._codes.get("categories", {}).items()
        }
        words = preprocessing.get("missing_words", MISSING_WORDS)
        self._missing = {"", *(word.casefold() for word in words)}
        self._ignored: list[str] = preprocessing.get("ignored", [])
        self._written: dict[str, Any] = self._numbers.get("written", {})
        self._target_written: dict[str, Any] | None = preprocessing.get("target_written")
        self._decoder = Decoder(encoding, usual=preprocessing.get("encoding"))
        self._complete: list[str] = preprocessing.get("complete_columns", [])
        self._notes = RowNotes(complete=self._complete)
        self._leaks = leaks
        derived = self._numbers.get("derived", {})
        names = [name for name in self._numbers.get("columns", []) if name not in derived]
        origins = [origin["column"] for origin in derived.values()]
        origins += [origin["since"] for origin in derived.values() if "since" in origin]
        self._origins = frozenset(origins).difference(names, self._places)
        self.columns = list(dict.fromkeys([*names, *origins, *self._places]))
        self._known = {*self.columns, *derived, *self._ignored}

    @property
    def notes(self) -> list[str]:
        """Return what the user should know about the rows that were read."""
        return [*self._decoder.notes, *self._notes.list()]

    def forget(self) -> None:
        """Forget what was noted about earlier rows."""
        self._decoder.notes.clear()
        self._notes = RowNotes(complete=self._complete)

    def find(self, argument: str, *, stdin: BinaryIO) -> Iterator[Item]:
        """Return one item for each row of the tables that an argument names."""
        is_checked = False
        tables = read_tables(argument, stdin=stdin, wanted=self.columns, decoder=self._decoder)
        for row in tables:
            if not is_checked and isinstance(row.values, dict):
                self._require_columns(row.values, table=row.name.rpartition(":")[0])
                is_checked = True
            values = row.values if isinstance(row.values, dict) else {}
            self._notes.add_columns(self._list_unknown(values), row.name)
            yield Item(row.name, partial(self._read, row.values, row.name), values)

    def find_row(self, values: Mapping[str, Any], *, name: str) -> Item:
        """Return the item for a row, whose columns are exactly those that the model knows."""
        self._require_columns(values, table=name)
        if unknown := self._list_unknown(values):
            raise ModelError(
                f"{name} has columns that the model does not know: {_list(unknown)}. It reads "
                f"{_list(self.columns)}. Correct the names, or remove these columns."
            )
        return Item(name, partial(self._read, dict(values), name), values)

    def _list_unknown(self, values: Mapping[str, Any]) -> list[str]:
        """Return the columns that the training table did not have."""
        if not self._ignored:  # an earlier version exported the model
            return []
        return [column for column in values if column not in self._known]

    def read_target(self, value: Any, *, column: str, place: str) -> float:
        """Read the target of a regression as the training table writes it.

        Args:
            value: The number or its text.
            column: Column of the target.
            place: File and line of the row.

        Raises:
            InputError: It is missing, or not a number.
        """
        self._notes.add_used(column)
        number = self._read_number(column, value, place, self._target_written)
        if math.isnan(number):
            raise InputError(f"column {column} has no value, so the prediction cannot be scored")
        return number

    def feed(self, samples: list[ReadRow]) -> Arrays:
        """Return rows as the model's inputs, whichever it has."""
        arrays: Arrays = {}
        if self._numbers:
            arrays[NUMBERS] = np.array([row.numbers for row in samples], dtype=np.float32)
        if self._codes:
            arrays[CODES] = np.array([row.codes for row in samples], dtype=np.int64)
        return arrays

    def _require_columns(self, values: Mapping[str, Any], *, table: str) -> None:
        # The rows of a registered data set have these numbers instead of their dates and texts.
        has_derived = all(name in values for name in self._numbers.get("derived", {}))
        given = {*values, *(self._origins if has_derived else ())}
        absent = [name for name in self.columns if name not in given]
        if absent:
            raise ModelError(
                f"{table} lacks columns that the model reads: {_list(absent)}. Its columns are "
                f"{_list(values)}. {self._advise_on(absent)}"
            )

    def _advise_on(self, absent: list[str]) -> str:
        """Return what to do about absent columns; those that leak the target have no empty form."""
        options = [f"--column {shlex.quote(f'{name}=ignored')}" for name in absent]
        warned = [leak for leak in self._leaks if any(option in leak for option in options)]
        if not warned:
            return "Rename them, or add the missing ones with empty values."
        return (
            f"The job warned of this: {'; '.join(warned)}. This model cannot do without these "
            "values; empty ones would give poor predictions."
        )

    def _read(self, values: dict[str, Any] | InputError, place: str = "") -> ReadRow:
        if isinstance(values, InputError):
            raise values
        derived = self._derive(values, place)
        numbers = [
            derived[name]
            if name in derived
            else self._read_number(name, values.get(name), place, self._written.get(name))
            for name in self._numbers.get("columns", [])
        ]
        codes = [self._read_code(name, values.get(name)) for name in self._places]
        self._notes.add_row(self._list_gaps(values, numbers))
        return ReadRow(numbers, codes)

    def _list_gaps(self, values: Mapping[str, Any], numbers: list[float]) -> list[str]:
        derived = self._numbers.get("derived", {})
        pairs = zip(self._numbers.get("columns", []), numbers, strict=True)
        gaps = [name for name, number in pairs if math.isnan(number) and name not in derived]
        given = [*self._places, *(name for name in self._origins if name in values)]
        return gaps + [name for name in given if self._is_missing(values.get(name))]

    def _read_number(
        self, name: str, value: Any, place: str, written: Mapping[str, Any] | None
    ) -> float:
        if self._is_missing(value):
            return math.nan
        try:
            amount = _read_amount(value, written)
        except ValueError:
            raise InputError(
                f"column {name}: {value!r} is not a number{_advise(str(value), written)}"
            ) from None
        number = amount.number
        if amount.doubt:
            self._notes.add_doubt(name, Doubt(place, value, amount))
        if not abs(number) <= LARGEST:
            raise InputError(f"column {name}: {value!r} is not a finite float32 number")
        return math.nan if number in self._numbers.get("missing_numbers", []) else number

    def _derive(self, values: Mapping[str, Any], place: str) -> dict[str, float]:
        """Return the numbers that are derived from dates and texts, NaN where a date is missing."""
        numbers: dict[str, float] = {}
        words: dict[str, set[str]] = {}
        for name, origin in self._numbers.get("derived", {}).items():
            if name in values:
                numbers[name] = self._read_number(name, values[name], place, None)
                continue
            column = origin["column"]
            value = values.get(column)
            if "word" in origin:
                if column not in words:
                    words[column] = set() if self._is_missing(value) else find_words(str(value))
                numbers[name] = float(origin["word"] in words[column])
                continue
            parts = self._read_date(values, column, place, day_first=origin["day_first"])
            if origin["part"] == DAYS_SINCE:
                since, day_first = origin["since"], origin["since_day_first"]
                start = self._read_date(values, since, place, day_first=day_first)
                numbers[name] = parts.get("ordinal", math.nan) - start.get("ordinal", math.nan)
            else:
                numbers[name] = parts.get(origin["part"], math.nan)
        return numbers

    def _read_date(
        self, values: Mapping[str, Any], column: str, place: str, *, day_first: bool
    ) -> dict[str, float]:
        """Return the numbers that are derived from a date; none if it is missing or not a date."""
        value = values.get(column)
        if self._is_missing(value):
            return {}
        moment = read_date(str(value), day_first=day_first)
        if moment is None:
            self._notes.add_no_date(column, str(value), place)
            return {}
        return derive_from_date(moment)

    def _read_code(self, name: str, value: Any) -> int:
        text = "" if value is None else str(value).strip()
        place = self._places[name].get(text)
        if place is not None:
            return place
        if not self._is_missing(value):
            self._notes.add_unknown(name, text)
        return -1

    def _is_missing(self, value: Any) -> bool:
        return value is None or str(value).strip().casefold() in self._missing


def _read_amount(value: Any, written: Mapping[str, Any] | None) -> Amount:
    """Read a number as a column of the training table writes it.

    Args:
        value: The number or its text.
        written: How the column is written; None for plain numbers, among which a comma can only
            be a decimal mark: `25,5`, but not `1,234`.

    Raises:
        ValueError: It is not a number, or it can be read in two ways.
    """
    if written and isinstance(value, str):
        return read_amount(
            value,
            unit=written["unit"],
            decimal=written["decimal"],
            separates_thousands=written.get("separates_thousands"),
        )
    try:
        return Amount(float(str(value).strip()))
    except ValueError:
        found = read_amount(str(value), unit="", decimal=".")
        if not found.doubt and "," in str(value):
            raise
        return found


def _advise(text: str, written: Mapping[str, Any] | None) -> str:
    """Return how the training table writes a column, if that may be why a text is not read."""
    unit = written["unit"] if written else ""
    number = _NUMBER_AND_UNIT.search(text)
    if number is not None and PERCENT in text:
        own = f"in {unit}" if unit else "without %, for example as 54 or as 0.54"
        return f"; write it as the training table does, {own}"
    if number is not None and unit:
        return f"; the training table has numbers in {unit}, so convert it"
    if number is not None:
        return "; write only the number, as in the training table"
    is_comma = not written and "," in text
    return "; the training table writes decimals after a point" if is_comma else ""


def _list(columns: Iterable[str]) -> str:
    named = list(columns)
    return ", ".join(named[:MOST_NAMED]) + (", ..." if len(named) > MOST_NAMED else "")
