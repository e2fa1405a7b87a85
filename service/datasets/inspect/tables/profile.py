"""Examines each column of a table: does it have numbers, words or nothing?"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import DecimalMark, Derived, Written
from service.datasets.inspect.report import quote
from service.datasets.inspect.tables.commas import (
    SEMICOLONS,
    Commas,
    count_numbers,
    find_commas,
    may_separate,
    separates_thousands,
    write_plainly,
)
from service.datasets.inspect.tables.value_types.units import (
    POINT_UNITS,
    are_codes,
    find_unit,
    find_word_unit,
    remove_unit,
    write_cents,
)
from service.datasets.inspect.tables.value_types.words import count_words
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
    """A column with N rows, and its properties.

    Attributes:
        raw: Values as written: texts, or numbers if the format has numbers.
        is_missing: (N,) bool; True for no value, or a word that means a missing value.
        numbers: (N,) float64, NaN where missing or not a number; None if too few values are
            numbers.
        is_not_number: (N,) bool; True for a value that is not a finite number.
        commas: How commas in the numbers are read; None without commas, or if the user said it.
        written: How the numbers are written, if not plainly.
        derived: Origin of a column that is derived from a date or a text.
    """

    name: str
    raw: pa.ChunkedArray
    is_missing: np.ndarray
    numbers: np.ndarray | None
    is_not_number: np.ndarray
    commas: Commas | None = None
    written: Written | None = None
    derived: Derived | None = None

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.is_missing)

    @cached_property
    def num_present(self) -> int:
        """Number of rows with a value."""
        return int(self.num_rows - self.is_missing.sum())

    @cached_property
    def texts(self) -> pa.ChunkedArray:
        """(N,) values as text without surrounding blanks, null where missing."""
        if pa.types.is_string(self.raw.type):
            texts = pc.utf8_trim_whitespace(self.raw)
        else:
            # A cast of integers avoids the exponent that large floats are written with.
            texts = pc.cast(self.integers if self.are_integers else self.raw, pa.string())
        return pc.if_else(pa.array(self.is_missing), pa.scalar(None, pa.string()), texts)

    @cached_property
    def plain_texts(self) -> pa.ChunkedArray:
        """(N,) values as text without blanks, units and dashes for cents, null where missing."""
        texts = write_cents(self.texts)
        unit = self.written and self.written.unit
        return remove_unit(texts, unit) if unit else texts

    @property
    def integers(self) -> pa.ChunkedArray:
        """(N,) int64, null where missing; of a column whose values are integers."""
        assert self.numbers is not None
        whole = np.where(self.is_missing, 0, self.numbers).astype(np.int64)
        return pa.chunked_array([pa.array(whole, mask=self.is_missing)])

    @cached_property
    def num_distinct(self) -> int:
        """Number of different values, not counting missing ones."""
        if self.numbers is not None and not self.is_not_number.any() and not self.are_long:
            present = self.numbers[~self.is_missing]
            return len(np.unique(present))
        return int(pc.count_distinct(self.texts, mode="only_valid").as_py())

    @cached_property
    def share_of_numbers(self) -> float:
        """Share of numbers among the values that are not missing."""
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
        """Whether these are integers, some too long for float64: names rather than amounts."""
        if self.numbers is None or not pa.types.is_string(self.raw.type):
            return False
        present = self.numbers[~self.is_missing & ~self.is_not_number]
        if not (abs(present) >= MAX_EXACT).any():
            return False
        whole = pc.match_substring_regex(self.texts, r"^[+-]?\d+$")
        return int(pc.sum(whole).as_py() or 0) == self.num_present

    @cached_property
    def mean_words(self) -> float:
        """Mean number of words in a value, from the first rows."""
        if not pa.types.is_string(self.raw.type):
            return 0.0
        values = [text for text in self.raw.slice(0, _SAMPLE).to_pylist() if text]
        return sum(map(count_words, values)) / len(values) if values else 0.0

    def missing_word(self, index: int) -> str:
        """Return the word in a row that means a missing value; or an empty text."""
        value = self.raw[index].as_py()
        is_empty = value is None or value != value  # NaN is not a word
        return "" if is_empty or not self.is_missing[index] else self.example(index).strip()

    def explain_missing(self, index: int) -> str:
        """Return what is wrong with a row that should have a value or a number."""
        if word := self.missing_word(index):
            return f"column {quote(self.name)}: {word!r} counts as a missing value"
        if self.is_missing[index]:
            return explain_empty(self.name)
        return f"column {quote(self.name)}: {self.example(index)!r} is not a finite number"

    def example(self, index: int) -> str:
        """Return a value as text for messages, shortened."""
        value = self.raw[index].as_py()
        text = "" if value is None else str(value)
        return text[:60] + ("..." if len(text) > 60 else "")


def explain_empty(name: str) -> str:
    """Return the message about an empty field of a column that should have a value."""
    return f"column {quote(name)} has no value"


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
    """Examine all columns.

    Args:
        names: Names of the columns.
        columns: (N,) texts or numbers of each column.
        missing: Words that mean a missing value.
        numeric: Names of columns that the user declared as numeric.
        decimal: The decimal mark, if the user set it.
        delimiters: Delimiters of the files; None for a format without delimiters.
        num_threads: Number of columns to examine in parallel.
    """

    def look(name: str, column: pa.ChunkedArray, mark: DecimalMark | None = decimal) -> Profile:
        return profile(name, column, missing=missing, is_numeric=name in numeric, decimal=mark)

    with ThreadPoolExecutor(num_threads) as pool:
        profiles = {found.name: found for found in pool.map(look, names, columns)}
    if _find_decimals(profiles.values()) == {","}:
        as_elsewhere = Commas(",", " because commas are decimal in other columns", mark=".")
        for name, found in profiles.items():
            if (
                found.commas is None
                and _is_text_of_numbers(found)
                and may_separate(found.plain_texts)
            ):
                profiles[name] = replace(look(name, found.raw, ","), commas=as_elsewhere)
    unclear = [name for name, found in profiles.items() if found.commas == Commas(None)]
    decided = _decide_commas(list(profiles.values()), delimiters) if unclear else None
    if decided is not None:
        for name in unclear:
            examined = look(name, profiles[name].raw, decided.decimal)
            profiles[name] = replace(examined, commas=decided)
    return profiles


def _decide_commas(profiles: Sequence[Profile], delimiters: set[str | None]) -> Commas | None:
    """Decide ambiguous commas: decimal marks, unless another column has decimal points."""
    clear = _find_decimals(profiles)
    if "." in clear or any(_has_points(found) for found in profiles):
        return None
    if ";" in delimiters:
        return Commas(",", SEMICOLONS)
    return Commas(",", ", as in other columns") if "," in clear else None


def _find_decimals(profiles: Iterable[Profile]) -> set[DecimalMark | None]:
    """Return the decimal marks of all columns whose commas decide it."""
    return {found.commas.decimal for found in profiles if found.commas is not None} - {None}


def _has_points(found: Profile) -> bool:
    """Return whether a text column has numbers with decimals after a point."""
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
    """Examine one column.

    Args:
        name: Name of the column.
        column: (N,) texts or numbers.
        missing: Words that mean a missing value; a word that is a number matches by value, too.
        is_numeric: Whether the user declared the column as numeric.
        decimal: The decimal mark, if it is known.
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
    present = pc.if_else(pa.array(is_missing), pa.scalar(None, pa.string()), texts)
    sample = write_cents(_sample(texts, is_missing))
    unit = find_unit(sample) or find_word_unit(sample, present)
    if unit:
        sample = remove_unit(sample, unit)
    may_be_numbers = count_numbers(sample, decimal) * 2 >= len(sample) > 0
    if not is_numeric and (not may_be_numbers or are_codes(present)):
        nothing = np.zeros(len(is_missing), bool)
        return Profile(name, column, is_missing, None, nothing)
    raw, present = present, write_cents(present)
    is_round = not present.equals(raw)
    if unit:
        present = remove_unit(present, unit)
    numbers, commas = _parse(present, decimal)
    if commas == Commas(None) and unit in POINT_UNITS:
        numbers, _ = _parse(present, ".")
        commas = Commas(".", f" in amounts of {unit}")
    is_missing = is_missing | _stand_for_none(numbers, missing)
    numbers = np.where(is_missing, np.nan, numbers)
    is_not_number = ~is_missing & ~np.isfinite(numbers)
    mark = decimal or (commas and commas.decimal) or "."
    written = None
    if unit or commas or decimal or is_round:
        written = Written(
            unit=unit, decimal=mark, separates_thousands=separates_thousands(present, mark)
        )
    return Profile(name, column, is_missing, numbers, is_not_number, commas, written)


def _stand_for_none(numbers: np.ndarray, missing: Sequence[str]) -> np.ndarray:
    """Return (N,) bool; compares values, so that -999 matches -999.0, and -99.9 its float32."""
    values = numbers_among(missing)
    rounded = [float(np.float32(value)) for value in values if not value.is_integer()]
    # An integer may be the rounding of another one: 999999999 is 1000000000 in float32.
    values += [value for value in rounded if not value.is_integer()]
    return np.isin(numbers, values)


def _has_blanks(texts: pa.ChunkedArray) -> bool:
    blank = r"^\s|\s$"
    return bool(pc.any(pc.match_substring_regex(texts, blank)).as_py())


def _sample(texts: pa.ChunkedArray, is_missing: np.ndarray) -> pa.ChunkedArray:
    """Return about a thousand values from all over the column."""
    present = np.flatnonzero(~is_missing)
    return texts.take(pa.array(present[:: max(1, len(present) // _SAMPLE)]))


def _parse(
    present: pa.ChunkedArray, decimal: DecimalMark | None
) -> tuple[np.ndarray, Commas | None]:
    """Return (N,) float64, NaN where missing or not a number, and how the commas are read.

    Args:
        present: (N,) texts without surrounding blanks and units, null where missing.
        decimal: The decimal mark, if it is known.
    """
    commas = None
    try:
        # If the user set the comma as decimal mark, a point is not one.
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
