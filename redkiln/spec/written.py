"""Values as people write them: `2h` for seconds, one architecture for a list, `early_stopping: 5`.

Each function takes a value before it is checked, and returns what the field stores. Values that it
does not know are returned as they are, so that the field's own check reports them.
"""

import itertools
import re
import unicodedata
from typing import Any

from pydantic_core import PydanticCustomError

NAME_RULE = (
    "1 to 100 letters and digits of any script, spaces, `.`, `_` or `-`, starting with a letter or "
    "digit"
)
NAME_PATTERN = r"^[^\x00-/:-@\[-`{-\xa0][^\x00-\x1f!-,/:-@\[-^`{-\xa0]{0,99}$"
"""What JSON Schema can say of names in every dialect of patterns: it excludes ASCII's signs."""

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
          "d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800}  # fmt: skip
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?"
_DURATION = re.compile(rf"(?:{_PART}(?:\s+|(?=\d)|$))+")


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a job or a data set."""
    return 0 < len(text) <= 100 and _is_letter(text[0]) and all(map(_is_in_names, text))


def normalize_name(text: str) -> str:
    """Return a name in the form in which names are stored and compared (Unicode's NFC)."""
    return unicodedata.normalize("NFC", text)


def make_name(text: str) -> str:
    """Return a name from a text such as a file's, with `-` for what no name has; perhaps empty."""
    kept = "".join(c if _is_in_names(c) and c != " " else "-" for c in normalize_name(text))
    begun = "".join(itertools.dropwhile(lambda c: not _is_letter(c), kept))
    return re.sub("-+", "-", begun)[:100].rstrip("-._")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def _is_in_names(character: str) -> bool:
    # Scripts such as Thai and Devanagari write vowels as marks.
    return character in " ._-" or unicodedata.category(character)[0] in "LMN"


def read_duration(value: Any) -> Any:
    """Return the seconds of a duration such as `90s`, `45 min`, `2h`, `1h30m` or `1 day 12 hours`.

    Raises:
        PydanticCustomError: The text is not a duration.
    """
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    parts = re.findall(rf"{_PART}(?=\s|\d|$)", text)
    if _DURATION.fullmatch(text) is None or not all(unit in _UNITS for _, unit in parts):
        message = "{value} is not a duration; write seconds, or a time with its unit: 90s, 45min, "
        message += "2h, 1d 12h"
        raise PydanticCustomError("not_a_duration", message, {"value": repr(value)})
    return float(sum(float(amount) * _UNITS[unit] for amount, unit in parts))


def read_list(value: Any) -> Any:
    """Return a list of one value, if it was written without brackets."""
    return [value] if isinstance(value, str) else value


def read_early_stopping(value: Any) -> Any:
    """Return the fields of early stopping that was written as its patience, `true` or `false`."""
    if isinstance(value, bool):
        return {} if value else None
    return {"patience": value} if isinstance(value, int) else value
