"""Notes on words for a missing value that may be categories, and on numbers that may mean none.

Shapes: N rows.
"""

from collections.abc import Mapping

import numpy as np

from redkiln.tables import TableOptions
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote, repeat_options, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles
from service.datasets.inspect.tables.value_types.unread import SHOWN
from service.datasets.inspect.tables.value_types.words_for_none import list_frequent

_NUMBERS = [-1, *(sign * (10**digits - 1) for digits in range(2, 7) for sign in (-1, 1))]
"""-1, -99, 99, -999, 999, ...: numbers that often mean no value."""
_LEAST_SHARE = 0.01
_LEAST_ROWS = 3
_LEAST_DISTINCT = 3
"""Different other values without which a column may hold codes."""
_LEAST_AROUND = 10
"""The same for -1, and for a number next to the others; fewer may be levels or ratings."""
_FREQUENTLY = 3
"""How many times as frequent as any other number one near to them must be."""
_GAP = 0.05
"""Distance of such a number from the others, in parts of their range; a limit has less."""


def note_missing_categories(
    profiles: dict[str, Profile], roles: Roles, *, is_used: np.ndarray
) -> None:
    """Add a note on frequent words that count as missing but may be categories.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns; receives the note.
        is_used: (N,) bool; False for skipped rows.
    """
    words = []
    for name in roles.of_type("categorical"):
        for word, num in list_frequent(profiles[name], is_used=is_used):
            count = f"1 value {quote(word)} counts"
            count = count if num == 1 else f"{num:,} values {quote(word)} count"
            words.append((word, f"column {show(name)}: {count} as missing"))
    if words:
        shown = "; ".join(note for _, note in words[:SHOWN])
        more = f"; and so on for {len(words) - SHOWN} more words" if len(words) > SHOWN else ""
        which = "one of these" if len({word for word, _ in words}) > 1 else quote(words[0][0])
        roles.notes.append(
            f"{shown}{more}. If {which} is a category, push again with missing='' (only empty "
            "fields are then missing); add missing=WORD for each word that still means no value"
        )


def warn_of_codes(
    profiles: Mapping[str, Profile], roles: Roles, options: TableOptions, *, is_used: np.ndarray
) -> list[DatasetProblem]:
    """Return a warning about numbers such as -99 that may mean no value.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns.
        options: The user's options.
        is_used: (N,) bool; False for skipped rows.
    """
    names = [name for name in roles.of_type("numeric") if profiles[name].derived is None]
    numbers = {name: _read_present(profiles[name], is_used) for name in names}
    found = [(name, value, num) for name in names for value, num in _find_codes(numbers[name])]
    if not found:
        return []
    shown = ", ".join(
        f"{num:,} of {len(numbers[name]):,} values of column {show(name)} are exactly {value}"
        for name, value, num in found[:SHOWN]
    )
    more = f", and so on in {len(found) - SHOWN} more cases" if len(found) > SHOWN else ""
    words, remark = roles.words_for_none.extend(str(value) for _, value, _ in found)
    told = repeat_options(options.model_copy(update={"missing": words}))
    codes = {value for _, value, _ in found}
    named = {name for name, _, _ in found}
    others = [
        name for name in names if name not in named and np.isin(numbers[name], list(codes)).any()
    ]
    also = f" (column {show(others[0])} has such values, too)" if others else ""
    message = (
        f"{shown}{more}; if this means no value in all columns{also}, push again with {told}"
        + (f" ({remark})" if remark else "")
    )
    return [problem("codes_for_missing", message)]


def _read_present(found: Profile, is_used: np.ndarray) -> np.ndarray:
    assert found.numbers is not None
    present: np.ndarray = found.numbers[np.isfinite(found.numbers) & is_used]
    return present


def _find_codes(present: np.ndarray) -> list[tuple[int, int]]:
    """Return usual codes that are outside of all other numbers, each with its number of rows."""
    values, counts = np.unique(present, return_counts=True)
    is_code = np.isin(values, _NUMBERS) & (counts >= max(_LEAST_ROWS, _LEAST_SHARE * len(present)))
    others, frequent = values[~is_code], counts[~is_code]
    if len(others) < _LEAST_DISTINCT:
        return []
    pairs = zip(values[is_code].tolist(), counts[is_code].tolist(), strict=True)
    return [(int(value), num) for value, num in pairs if _is_code(value, num, others, frequent)]


def _is_code(value: float, num: int, others: np.ndarray, frequent: np.ndarray) -> bool:
    """Return whether a number is far outside of the others, or outside and far more frequent.

    A negative number among numbers that are never negative is far, whatever their range. But -1
    may continue them: they must not be a few levels, and 0 is absent or all are far less frequent.

    Args:
        value: The number.
        num: Number of its rows.
        others: (M,) the other numbers, in rising order.
        frequent: (M,) the numbers of their rows.
    """
    low, high = float(others[0]), float(others[-1])
    are_many = len(others) >= _LEAST_AROUND
    is_frequent = are_many and num > _FREQUENTLY * int(frequent.max())
    if value == -1:
        return low >= 0 and (is_frequent or (are_many and low > 0))
    if value < 0 <= low:
        return True
    outside = max(low - value, value - high)
    return outside > (_GAP if is_frequent else 1) * (high - low)
