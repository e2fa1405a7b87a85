"""What each column of a table holds: numbers, words or nothing."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.report import show
from service.datasets.inspect.tables.values import (
    NUMBER,
    is_number,
    numbers_among,
    spellings_of_missing,
)

_SAMPLE = 1000
_LIKE_NUMBER = rf"^{NUMBER}$"
_COMMA_NUMBER = r"^[+-]?\d+(,\d+)?$"


@dataclass(frozen=True)
class Profile:
    """A column and what was found in it. N rows.

    Attributes:
        raw: as it was written; numbers where the format has such.
        is_missing: (N,) bool; no value, or a word that stands for none.
        numbers: (N,) float64, NaN where missing or no number; None if too few values are numbers to
            think of.
        is_not_number: (N,) bool; a value that is not a finite number.
    """

    name: str
    raw: pa.ChunkedArray
    is_missing: np.ndarray
    numbers: np.ndarray | None
    is_not_number: np.ndarray

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.is_missing)

    @cached_property
    def num_present(self) -> int:
        """Rows with a value."""
        return int(self.num_rows - self.is_missing.sum())

    @cached_property
    def texts(self) -> pa.ChunkedArray:
        """(N,) values as text without blanks around them, null where missing."""
        if pa.types.is_string(self.raw.type):
            texts = pc.utf8_trim_whitespace(self.raw)
        else:
            texts = pc.cast(self.raw, pa.string())
        return pc.if_else(pa.array(self.is_missing), pa.scalar(None, pa.string()), texts)

    @cached_property
    def num_distinct(self) -> int:
        """Different values, missing ones not counted."""
        if self.numbers is not None and not self.is_not_number.any():
            present = self.numbers[~self.is_missing]
            return len(np.unique(present))
        return int(pc.count_distinct(self.texts, mode="only_valid").as_py())

    @cached_property
    def share_of_numbers(self) -> float:
        """Of the values that are there."""
        if self.numbers is None or not self.num_present:
            return 0.0
        return 1 - float(self.is_not_number.sum()) / self.num_present

    @cached_property
    def are_integers(self) -> bool:
        """Whether all values are whole numbers."""
        if self.numbers is None or self.is_not_number.any():
            return False
        present = self.numbers[~self.is_missing]
        return bool((present == np.floor(present)).all()) and bool((abs(present) < 2**53).all())

    @cached_property
    def mean_words(self) -> float:
        """Words that a value has, by its first rows."""
        if not pa.types.is_string(self.raw.type):
            return 0.0
        values = [text for text in self.raw.slice(0, _SAMPLE).to_pylist() if text]
        return sum(len(text.split()) for text in values) / len(values) if values else 0.0

    def say_no_number(self, index: int) -> str:
        """What is wrong with a row that should have a number."""
        if self.is_missing[index]:
            return f"column {show(self.name)!r} has no value"
        return f"column {show(self.name)!r}: {self.example(index)!r} is no finite number"

    def example(self, index: int) -> str:
        """A value as it can be shown."""
        value = self.raw[index].as_py()
        text = "" if value is None else str(value)
        return text[:60] + ("..." if len(text) > 60 else "")


def profile_all(
    names: Sequence[str],
    columns: Sequence[pa.ChunkedArray],
    *,
    missing: Sequence[str],
    numeric: set[str],
    num_threads: int,
) -> dict[str, Profile]:
    """The profile of each column.

    Args:
        names: of the columns.
        columns: (N,) each, text or numbers.
        missing: words that stand for no value.
        numeric: names of columns that were said to hold numbers, whatever they look like.
        num_threads: columns looked at at once.
    """
    with ThreadPoolExecutor(num_threads) as pool:
        profiles = pool.map(
            lambda name, column: profile(name, column, missing=missing, is_numeric=name in numeric),
            names,
            columns,
        )
        return {profile.name: profile for profile in profiles}


def profile(
    name: str, column: pa.ChunkedArray, *, missing: Sequence[str], is_numeric: bool = False
) -> Profile:
    """The profile of one column.

    Args:
        name: of the column.
        column: (N,) text or numbers.
        missing: words that stand for no value; one that is a number, also by its value.
        is_numeric: it was said to hold numbers, whatever it looks like.
    """
    if not pa.types.is_string(column.type):
        numbers = pc.fill_null(column, float("nan")).to_numpy()
        is_missing = np.isnan(numbers) | _stand_for_none(numbers, missing)
        numbers = np.where(is_missing, np.nan, numbers)
        return Profile(name, column, is_missing, numbers, np.isinf(numbers))
    texts = pc.fill_null(column, "")
    if _has_blanks(texts):
        texts = pc.utf8_trim_whitespace(texts)
    words = pa.array(spellings_of_missing(missing))
    is_missing = pc.is_in(texts, value_set=words).to_numpy()
    if not (is_numeric or _may_be_numbers(texts, is_missing)):
        nothing = np.zeros(len(is_missing), bool)
        return Profile(name, column, is_missing, None, nothing)
    numbers = _parse(texts, is_missing)
    is_missing = is_missing | _stand_for_none(numbers, missing)
    numbers = np.where(is_missing, np.nan, numbers)
    is_not_number = ~is_missing & ~np.isfinite(numbers)
    return Profile(name, column, is_missing, numbers, is_not_number)


def _stand_for_none(numbers: np.ndarray, missing: Sequence[str]) -> np.ndarray:
    """(N,) bool; by value, so that -999 is also -999.0, and -99.9 what float32 makes of it."""
    values = numbers_among(missing)
    rounded = [float(np.float32(value)) for value in values if not value.is_integer()]
    # A whole number may be another one's rounding: 999999999 is 1000000000 in float32.
    values += [value for value in rounded if not value.is_integer()]
    return np.isin(numbers, values)


def _has_blanks(texts: pa.ChunkedArray) -> bool:
    blank = r"^\s|\s$"
    return bool(pc.any(pc.match_substring_regex(texts, blank)).as_py())


def _may_be_numbers(texts: pa.ChunkedArray, is_missing: np.ndarray) -> bool:
    """By up to a thousand values from all over the column: half of them are numbers."""
    present = np.flatnonzero(~is_missing)
    chosen = present[:: max(1, len(present) // _SAMPLE)]
    if not len(chosen):
        return False
    sample = texts.take(pa.array(chosen)).to_pylist()
    return sum(is_number(text.replace(",", ".", 1)) for text in sample) * 2 >= len(sample)


def _parse(texts: pa.ChunkedArray, is_missing: np.ndarray) -> np.ndarray:
    """(N,) float64, NaN where missing or no number."""
    present = pc.if_else(pa.array(is_missing), pa.scalar(None, pa.string()), texts)
    try:
        numbers = pc.cast(present, pa.float64())
    except pa.ArrowInvalid:
        present = _points(present)
        is_number = pc.match_substring_regex(present, _LIKE_NUMBER)
        numbers = pc.cast(
            pc.if_else(is_number, present, pa.scalar(None, pa.string())), pa.float64()
        )
    return np.asarray(pc.fill_null(numbers, float("nan")))


def _points(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimal commas as points, where every number of the column may have been written so."""
    has_comma = pc.match_substring_regex(texts, _COMMA_NUMBER)
    num_present = len(texts) - texts.null_count
    if pc.sum(has_comma).as_py() == num_present:
        return pc.replace_substring(texts, ",", ".")
    return texts
