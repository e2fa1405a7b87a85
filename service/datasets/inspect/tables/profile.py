"""What each column of a table holds: numbers, words or nothing."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import DecimalMark
from service.datasets.inspect.report import show
from service.datasets.inspect.tables.commas import (
    Commas,
    count_numbers,
    find_commas,
    may_separate,
    write_plainly,
)
from service.datasets.inspect.tables.values import (
    MAX_EXACT,
    NUMBER,
    numbers_among,
    spellings_of_missing,
)

_SAMPLE = 1000
_LIKE_NUMBER = rf"^{NUMBER}$"


@dataclass(frozen=True)
class Profile:
    """A column and what was found in it. N rows.

    Attributes:
        raw: as it was written; numbers where the format has such.
        is_missing: (N,) bool; no value, or a word that stands for none.
        numbers: (N,) float64, NaN where missing or no number; None if too few values are numbers to
            think of.
        is_not_number: (N,) bool; a value that is not a finite number.
        commas: what those in its numbers were taken for; None without any, or where it was said.
    """

    name: str
    raw: pa.ChunkedArray
    is_missing: np.ndarray
    numbers: np.ndarray | None
    is_not_number: np.ndarray
    commas: Commas | None = None

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
            # Large floats are written with an exponent.
            texts = pc.cast(self.integers if self.are_integers else self.raw, pa.string())
        return pc.if_else(pa.array(self.is_missing), pa.scalar(None, pa.string()), texts)

    @property
    def integers(self) -> pa.ChunkedArray:
        """(N,) int64, null where missing; of a column whose values are integers."""
        assert self.numbers is not None
        whole = np.where(self.is_missing, 0, self.numbers).astype(np.int64)
        return pa.chunked_array([pa.array(whole, mask=self.is_missing)])

    @cached_property
    def num_distinct(self) -> int:
        """Different values, missing ones not counted."""
        if self.numbers is not None and not self.is_not_number.any() and not self.are_long:
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
        return bool((present == np.floor(present)).all()) and bool((abs(present) < MAX_EXACT).all())

    @cached_property
    def are_long(self) -> bool:
        """Whether these are whole numbers, some too long for float64: rather names than amounts."""
        if self.numbers is None or not pa.types.is_string(self.raw.type):
            return False
        present = self.numbers[~self.is_missing & ~self.is_not_number]
        if not (abs(present) >= MAX_EXACT).any():
            return False
        whole = pc.match_substring_regex(self.texts, r"^[+-]?\d+$")
        return int(pc.sum(whole).as_py() or 0) == self.num_present

    @cached_property
    def mean_words(self) -> float:
        """Words that a value has, by its first rows."""
        if not pa.types.is_string(self.raw.type):
            return 0.0
        values = [text for text in self.raw.slice(0, _SAMPLE).to_pylist() if text]
        return sum(len(text.split()) for text in values) / len(values) if values else 0.0

    def word_for_none(self, index: int) -> str:
        """What a row has that stands for no value; nothing where it is empty."""
        value = self.raw[index].as_py()
        is_empty = value is None or value != value  # NaN is no word
        return "" if is_empty or not self.is_missing[index] else self.example(index).strip()

    def say_no_value(self, index: int) -> str:
        """What is wrong with a row that should have a value, or a number."""
        if word := self.word_for_none(index):
            return f"column {show(self.name)!r}: {word!r} counts as a missing value"
        if self.is_missing[index]:
            return f"column {show(self.name)!r} has no value"
        return f"column {show(self.name)!r}: {self.example(index)!r} is not a finite number"

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
    decimal: DecimalMark | None,
    delimiters: set[str | None],
    num_threads: int,
) -> dict[str, Profile]:
    """The profile of each column.

    Args:
        names: of the columns.
        columns: (N,) each, text or numbers.
        missing: words that stand for no value.
        numeric: names of columns that were said to hold numbers, whatever they look like.
        decimal: the mark before decimals, if it was said.
        delimiters: of the files; None for one that needs none.
        num_threads: columns looked at at once.
    """

    def look(name: str, column: pa.ChunkedArray, mark: DecimalMark | None = decimal) -> Profile:
        return profile(name, column, missing=missing, is_numeric=name in numeric, decimal=mark)

    with ThreadPoolExecutor(num_threads) as pool:
        profiles = {found.name: found for found in pool.map(look, names, columns)}
    if _find_decimals(profiles.values()) == {","}:
        as_elsewhere = Commas(",", " because commas are decimal in other columns", mark=".")
        for name, found in profiles.items():
            if found.commas is None and _is_text_of_numbers(found) and may_separate(found.texts):
                profiles[name] = replace(look(name, found.raw, ","), commas=as_elsewhere)
    unclear = [name for name, found in profiles.items() if found.commas == Commas(None)]
    told = _tell_commas(list(profiles.values()), delimiters) if unclear else None
    if told is not None:
        for name in unclear:
            profiles[name] = replace(look(name, profiles[name].raw, told.decimal), commas=told)
    return profiles


def _tell_commas(profiles: Sequence[Profile], delimiters: set[str | None]) -> Commas | None:
    """What commas mean that may be read in either way: decimals, where the rest has no other."""
    clear = _find_decimals(profiles)
    if "." in clear or any(_has_points(found) for found in profiles):
        return None
    if ";" in delimiters:
        return Commas(",", " because semicolons separate the fields")
    return Commas(",", ", as in other columns") if "," in clear else None


def _find_decimals(profiles: Iterable[Profile]) -> set[DecimalMark | None]:
    """The marks before decimals in all columns whose commas say something."""
    return {found.commas.decimal for found in profiles if found.commas is not None} - {None}


def _has_points(found: Profile) -> bool:
    """Whether a text column has numbers with decimals that are not behind a comma."""
    if found.commas is not None or not _is_text_of_numbers(found):
        return False
    assert found.numbers is not None
    numbers = found.numbers[np.isfinite(found.numbers)]
    return bool((numbers != np.floor(numbers)).any())


def _is_text_of_numbers(found: Profile) -> bool:
    return found.numbers is not None and pa.types.is_string(found.raw.type)


def profile(
    name: str,
    column: pa.ChunkedArray,
    *,
    missing: Sequence[str],
    is_numeric: bool = False,
    decimal: DecimalMark | None = None,
) -> Profile:
    """The profile of one column.

    Args:
        name: of the column.
        column: (N,) text or numbers.
        missing: words that stand for no value; one that is a number, also by its value.
        is_numeric: it was said to hold numbers, whatever it looks like.
        decimal: the mark before decimals, if it is known.
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
    if not (is_numeric or _may_be_numbers(texts, is_missing, decimal)):
        nothing = np.zeros(len(is_missing), bool)
        return Profile(name, column, is_missing, None, nothing)
    numbers, commas = _parse(texts, is_missing, decimal)
    is_missing = is_missing | _stand_for_none(numbers, missing)
    numbers = np.where(is_missing, np.nan, numbers)
    is_not_number = ~is_missing & ~np.isfinite(numbers)
    return Profile(name, column, is_missing, numbers, is_not_number, commas)


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


def _may_be_numbers(
    texts: pa.ChunkedArray, is_missing: np.ndarray, decimal: DecimalMark | None
) -> bool:
    """By up to a thousand values from all over the column: half of them are numbers."""
    present = np.flatnonzero(~is_missing)
    chosen = present[:: max(1, len(present) // _SAMPLE)]
    if not len(chosen):
        return False
    return count_numbers(texts.take(pa.array(chosen)), decimal) * 2 >= len(chosen)


def _parse(
    texts: pa.ChunkedArray, is_missing: np.ndarray, decimal: DecimalMark | None
) -> tuple[np.ndarray, Commas | None]:
    """(N,) float64, NaN where missing or no number, and what its commas were taken for."""
    present = pc.if_else(pa.array(is_missing), pa.scalar(None, pa.string()), texts)
    commas = None
    try:
        # A point is no decimal mark where the comma was said to be the one.
        numbers = pc.cast(write_plainly(present, ",") if decimal == "," else present, pa.float64())
    except pa.ArrowInvalid:
        commas = find_commas(present) if decimal is None else None
        if decimal or commas:
            present = write_plainly(present, decimal or (commas and commas.decimal) or ".")
        else:
            is_number = pc.match_substring_regex(present, _LIKE_NUMBER)
            present = pc.if_else(is_number, present, pa.scalar(None, pa.string()))
        numbers = pc.cast(present, pa.float64())
    return np.asarray(pc.fill_null(numbers, float("nan"))), commas
