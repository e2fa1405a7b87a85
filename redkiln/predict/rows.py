"""Rows of a table as inputs: numbers and category codes, read as for training.

Shapes: B batch, F numeric columns, K categorical columns.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from redkiln.cells.prose import find_words
from redkiln.dates import derive_from_date, read_date
from redkiln.errors import ModelError
from redkiln.predict.delimited import Row, read_tables
from redkiln.predict.items import Arrays, InputError, Item
from redkiln.tables import DAYS_SINCE, MISSING_WORDS

NUMBERS, CODES = "numbers", "codes"
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ReadRow:
    """One row: (F,) numbers with NaN where missing, and (K,) codes with -1 where missing."""

    numbers: list[float]
    codes: list[int]


class RowPreparation:
    """Reads rows from CSV, TSV and JSON lines.

    A category that the training table lacks counts as missing, as in the test split.
    """

    noun = "rows"
    is_costly = False

    def __init__(self, preprocessing: dict[str, Any]) -> None:
        parts = {part["name"]: part for part in preprocessing["inputs"]}
        self._numbers: dict[str, Any] = parts.get(NUMBERS, {})
        self._codes: dict[str, Any] = parts.get(CODES, {})
        self._places = {
            name: {category: place for place, category in enumerate(categories)}
            for name, categories in self._codes.get("categories", {}).items()
        }
        words = preprocessing.get("missing_words", MISSING_WORDS)
        self._missing = {"", *(word.casefold() for word in words)}
        self._unknown: Counter[str] = Counter()
        derived = self._numbers.get("derived", {})
        names = [name for name in self._numbers.get("columns", []) if name not in derived]
        origins = [origin["column"] for origin in derived.values()]
        origins += [origin["since"] for origin in derived.values() if "since" in origin]
        self._origins = frozenset(origins).difference(names, self._places)
        self.columns = list(dict.fromkeys([*names, *origins, *self._places]))

    @property
    def notes(self) -> list[str]:
        """Say which categories the model does not know."""
        if not self._unknown:
            return []
        listed = ", ".join(f"{place} ({count})" for place, count in self._unknown.most_common(5))
        more = f" and {len(self._unknown) - 5} others" if len(self._unknown) > 5 else ""
        return [f"Values that the training table does not have count as missing: {listed}{more}"]

    def find(self, argument: str, *, stdin: BinaryIO) -> Iterator[Item]:
        """Return one item for each row of the tables that an argument names."""
        is_checked = False
        for row in read_tables(argument, stdin=stdin, wanted=self.columns):
            if not is_checked and isinstance(row.values, dict):
                self._require_columns(row)
                is_checked = True
            values = row.values if isinstance(row.values, dict) else {}
            yield Item(row.name, partial(self._read, row.values), values)

    def feed(self, samples: list[ReadRow]) -> Arrays:
        """Return rows as the model's inputs, whichever it has."""
        arrays: Arrays = {}
        if self._numbers:
            arrays[NUMBERS] = np.array([row.numbers for row in samples], dtype=np.float32)
        if self._codes:
            arrays[CODES] = np.array([row.codes for row in samples], dtype=np.int64)
        return arrays

    def _require_columns(self, row: Row) -> None:
        assert isinstance(row.values, dict)
        # The rows of a registered data set have these numbers instead of their dates and texts.
        has_derived = all(name in row.values for name in self._numbers.get("derived", {}))
        given = {*row.values, *(self._origins if has_derived else ())}
        absent = [name for name in self.columns if name not in given]
        if absent:
            listed = ", ".join(absent[:10]) + (", ..." if len(absent) > 10 else "")
            raise ModelError(
                f"{row.name.rpartition(':')[0]} lacks columns that the model reads: {listed}. "
                f"Its columns are {', '.join(list(row.values)[:20])}. Rename them, or add the "
                "missing ones with empty values."
            )

    def _read(self, values: dict[str, Any] | InputError) -> ReadRow:
        if isinstance(values, InputError):
            raise values
        derived = self._derive(values)
        numbers = [
            derived[name] if name in derived else self._read_number(name, values.get(name))
            for name in self._numbers.get("columns", [])
        ]
        codes = [self._read_code(name, values.get(name)) for name in self._places]
        return ReadRow(numbers, codes)

    def _read_number(self, name: str, value: Any) -> float:
        if self._is_missing(value):
            return math.nan
        written = self._numbers.get("written", {}).get(name)
        text = str(value).strip()
        if written and isinstance(value, str):
            mark = written["decimal"]
            text = text.replace(written["unit"], "") if written["unit"] else text
            text = text.replace("," if mark == "." else ".", "").replace(mark, ".").strip()
        try:
            number = float(text)
        except ValueError:
            raise InputError(f"column {name}: {value!r} is not a number") from None
        if not abs(number) <= LARGEST:
            raise InputError(f"column {name}: {value!r} is not a finite float32 number")
        return math.nan if number in self._numbers.get("missing_numbers", []) else number

    def _derive(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers that are derived from dates and texts, NaN where a date is missing."""
        numbers: dict[str, float] = {}
        words: dict[str, set[str]] = {}
        for name, origin in self._numbers.get("derived", {}).items():
            if name in values:
                numbers[name] = self._read_number(name, values[name])
                continue
            column = origin["column"]
            value = values.get(column)
            if "word" in origin:
                if column not in words:
                    words[column] = set() if self._is_missing(value) else find_words(str(value))
                numbers[name] = float(origin["word"] in words[column])
                continue
            parts = self._read_date(values, column, day_first=origin["day_first"])
            if origin["part"] == DAYS_SINCE:
                since, day_first = origin["since"], origin["since_day_first"]
                start = self._read_date(values, since, day_first=day_first)
                numbers[name] = parts.get("ordinal", math.nan) - start.get("ordinal", math.nan)
            else:
                numbers[name] = parts.get(origin["part"], math.nan)
        return numbers

    def _read_date(
        self, values: Mapping[str, Any], column: str, *, day_first: bool
    ) -> dict[str, float]:
        """Return the numbers that are derived from a date; none if it is missing."""
        value = values.get(column)
        if self._is_missing(value):
            return {}
        moment = read_date(str(value), day_first=day_first)
        if moment is None:
            raise InputError(f"column {column}: {value!r} is not a date")
        return derive_from_date(moment)

    def _read_code(self, name: str, value: Any) -> int:
        text = "" if value is None else str(value).strip()
        place = self._places[name].get(text)
        if place is not None:
            return place
        if not self._is_missing(value):
            self._unknown[f"{name} {text!r}"] += 1
        return -1

    def _is_missing(self, value: Any) -> bool:
        return value is None or str(value).strip().casefold() in self._missing
