"""Interprets written values: missing, a number, or words."""

import math
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""A finite decimal number."""
MAX_EXACT = 2**53
"""float64 represents all integers below this exactly."""
_NUMBER = re.compile(rf"\s*{NUMBER}\s*")


def fold_missing(words: Iterable[str]) -> frozenset[str]:
    """Return the empty text and the casefolded words, to compare casefolded texts with."""
    return frozenset({"", *(word.casefold() for word in words)})


def spellings_of_missing(words: Iterable[str]) -> list[str]:
    """Return the empty text and usual spellings of each word, to compare whole columns with."""
    forms = {
        form
        for word in words
        for form in (word, word.lower(), word.upper(), word.capitalize(), word.title())
    }
    return sorted({"", *forms})


def numbers_among(words: Iterable[str]) -> list[float]:
    """Return the words that are numbers, as numbers."""
    return [float(word) for word in words if is_number(word)]


def is_number(text: str) -> bool:
    """Return whether a text is a finite decimal number."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def as_column(numbers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Convert numbers to float64, or to text if float64 would make different ones equal.

    Args:
        numbers: (N,) integers, floats or decimals.
    """
    if not pa.types.is_floating(numbers.type):
        extremes = pc.min_max(numbers).as_py().values()
        if any(value is not None and abs(value) >= MAX_EXACT for value in extremes):
            return pc.cast(numbers, pa.string())
    return pc.cast(numbers, pa.float64(), safe=False)
