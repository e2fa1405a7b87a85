"""Notes on words for a missing value that may be categories, and on numbers that may mean none.

Shapes: N rows.
"""

import shlex
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.report import quote, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles
from service.datasets.inspect.tables.value_types.unread import SHOWN

_FREQUENT = 0.05
"""Share of rows from which on a word that counts as missing is reported."""
_NUMBERS = [sign * (10**digits - 1) for digits in range(2, 7) for sign in (-1, 1)]
"""-99, 99, -999, 999, ...: numbers that often mean no value."""
_LEAST_SHARE = 0.01
_LEAST_ROWS = 3
_LEAST_DISTINCT = 3
"""Different other values without which a column may hold codes."""


def note_missing_categories(profiles: dict[str, Profile], roles: Roles) -> None:
    """Add a note on frequent words that count as missing but may be categories."""
    words = []
    for name in roles.of_type("categorical"):
        found = profiles[name]
        if not pa.types.is_string(found.raw.type) or not found.is_missing.any():
            continue
        missing = found.raw.filter(pa.array(found.is_missing))
        for count in pc.value_counts(pc.utf8_trim_whitespace(missing)).to_pylist():
            word, num = count["values"], count["counts"]
            if word and num >= _FREQUENT * found.num_rows:
                words.append(f"{num} values {quote(word)} of column {show(name)}")
    if words:
        shown = ", ".join(words[:SHOWN])
        more = f" and {len(words) - SHOWN} more words" if len(words) > SHOWN else ""
        each = "it is a category" if len(words) == 1 else "one is a category"
        roles.notes.append(
            f"{shown}{more} count as missing; if {each}, push again with missing='' (only empty "
            "fields are missing), and missing=WORD for each word that does mean it"
        )


def note_missing_numbers(profiles: Mapping[str, Profile], roles: Roles) -> None:
    """Add a note on numbers such as -99 that may mean no value."""
    names = roles.of_type("numeric")
    found = [(name, value, num) for name in names for value, num in _find_codes(profiles[name])]
    if not found:
        return
    shown = ", ".join(
        f"{num} of {profiles[name].num_present} values of column {show(name)} are exactly {value}"
        for name, value, num in found[:SHOWN]
    )
    more = f", and so on in {len(found) - SHOWN} more cases" if len(found) > SHOWN else ""
    # The option replaces the words in effect, so those that the table has are repeated.
    words = dict.fromkeys([*(str(value) for _, value, _ in found), *roles.words_for_none])
    options = " ".join(f"missing={shlex.quote(word)}" for word in words)
    roles.notes.append(f"{shown}{more}; if this means no value, push again with {options}")


def _find_codes(found: Profile) -> list[tuple[int, int]]:
    """Return numbers of nines that are far from all other numbers, each with its number of rows."""
    assert found.numbers is not None
    present = found.numbers[np.isfinite(found.numbers)]
    values, counts = np.unique(present, return_counts=True)
    is_code = np.isin(values, _NUMBERS) & (counts >= max(_LEAST_ROWS, _LEAST_SHARE * len(present)))
    others = values[~is_code]
    if len(others) < _LEAST_DISTINCT:
        return []
    low, high = float(others[0]), float(others[-1])
    pairs = zip(values[is_code].tolist(), counts[is_code].tolist(), strict=True)
    return [(int(value), num) for value, num in pairs if _is_far(value, low, high)]


def _is_far(value: float, low: float, high: float) -> bool:
    """Return whether a number is outside of the others, farther than these from each other.

    A negative number among numbers that are never negative is far, whatever their range.
    """
    if value < 0 <= low:
        return True
    return max(low - value, value - high) > high - low
