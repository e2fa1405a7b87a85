"""What a written value means: missing, a number, or words."""

import math
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""A finite decimal number."""
MAX_EXACT = 2**53
"""Whole numbers below this are what they are as float64, too."""
_NUMBER = re.compile(rf"\s*{NUMBER}\s*")


def fold_missing(words: Iterable[str]) -> frozenset[str]:
    """Nothing and each word without its case, for comparisons of casefolded texts."""
    return frozenset({"", *(word.casefold() for word in words)})


def spellings_of_missing(words: Iterable[str]) -> list[str]:
    """Nothing and each word as it is usually written, for comparisons of whole columns."""
    forms = {
        form
        for word in words
        for form in (word, word.lower(), word.upper(), word.capitalize(), word.title())
    }
    return sorted({"", *forms})


def numbers_among(words: Iterable[str]) -> list[float]:
    """Those of the words that are numbers."""
    return [float(word) for word in words if is_number(word)]


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal number."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def as_column(numbers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Numbers as a table's column holds them: float64, or text where that would make some alike.

    Args:
        numbers: (N,) integers, floats or decimals.
    """
    if not pa.types.is_floating(numbers.type):
        extremes = pc.min_max(numbers).as_py().values()
        if any(value is not None and abs(value) >= MAX_EXACT for value in extremes):
            return pc.cast(numbers, pa.string())
    return pc.cast(numbers, pa.float64(), safe=False)
