"""What a written value means: missing, a number, or words."""

import math
import re
from collections.abc import Iterable

NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""A finite decimal number."""
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
