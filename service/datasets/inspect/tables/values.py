"""What a written value means: missing, a number, or words."""

import math
import re

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "?"})
"""Values that stand for none, in any case."""
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""A finite decimal number."""
_NUMBER = re.compile(rf"\s*{NUMBER}\s*")


def spellings_of_missing() -> list[str]:
    """Each of `MISSING` as it is usually written, for comparisons of whole columns."""
    forms = {
        form for word in MISSING for form in (word, word.upper(), word.capitalize(), word.title())
    }
    return sorted({*forms, "NaN", "-NaN", "N/a"})


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal number."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))
