"""Numbers with a unit, such as `$1,234`, `54%` and `5 km`, and codes, such as `01234`."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.amounts import (
    ROUND,
    UNITS_AFTER,
    UNITS_BEFORE,
    has_plural,
    unit_pattern,
    unit_spellings,
)
from service.datasets.inspect.report import quote_use, show
from service.datasets.inspect.tables.value_types.unread import (
    PLAIN,
    SHOWN,
    WORD_UNIT,
    strip_numbers,
)

POINT_UNITS = frozenset("$£¥₹₩")
"""Units of countries that write decimals after a point."""


LETTERS_FOR_THOUSANDS = frozenset("kKMB")


def find_word_unit(sample: pa.ChunkedArray, texts: pa.ChunkedArray) -> str:
    """Return the only word that follows the numbers of a column, such as `km`; or an empty text.

    More than half of the texts have it. If another unit follows some numbers, none is found.

    Args:
        sample: (M,) some of the texts, not null.
        texts: (N,) texts without surrounding blanks, null where missing.
    """
    for some in (sample, texts.drop_null()):
        with_unit = some.filter(pc.match_substring_regex(some, f"^{PLAIN}{WORD_UNIT}$"))
        units = set(strip_numbers(with_unit).unique().to_pylist())
        unit = max(units, key=len, default="")
        spelt = {unit, unit[:-1]} if has_plural(unit) else {unit}
        is_most = 2 * len(with_unit) > len(some)
        if not is_most or not units <= spelt or unit in LETTERS_FOR_THOUSANDS:
            return ""
    return unit


def find_unit(texts: pa.ChunkedArray | pa.Array) -> str:
    """Return the sign that more than half of some texts have; or an empty text."""
    for unit in dict.fromkeys(UNITS_BEFORE + UNITS_AFTER):
        if 2 * (pc.sum(_has_unit(texts, unit)).as_py() or 0) > len(texts):
            return unit
    return ""


def write_cents(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write `00` for the dash of round amounts, such as `143,-`, which shows the decimal mark.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
    """
    return pc.replace_substring_regex(texts, ROUND, r"\100\2")


def remove_unit(texts: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Remove a unit from the amounts among some texts, and leave other texts unchanged.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
        unit: The unit.
    """
    plain = pc.replace_substring_regex(texts, rf"\s*{unit_spellings(unit)}\s*", "")
    return pc.if_else(pc.fill_null(_has_unit(texts, unit), False), plain, texts)


def note_units(units: Mapping[str, str]) -> list[str]:
    """Return a note on columns of amounts, if there are any.

    Args:
        units: The unit of each column, by its name.
    """
    if not units:
        return []
    first, unit = next(iter(units.items()))
    note = f"the numbers of column {show(first)} are amounts in {unit}"
    if len(units) > 1:
        listed = ", ".join(f"{show(name)} ({one})" for name, one in list(units.items())[:SHOWN])
        more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
        note = f"{len(units)} columns have numbers with a unit, which is left out: {listed}{more}"
    return [f"{note}; to change it: column={quote_use(first, 'categorical')}"]


def are_codes(texts: pa.ChunkedArray) -> bool:
    """Return whether all texts are digits and one begins with a zero that a number would lose.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
    """
    if not pc.any(pc.match_substring_regex(texts, r"^0\d+$")).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(texts, r"^\d+$")).as_py())


def _has_unit(texts: pa.ChunkedArray | pa.Array, unit: str) -> pa.ChunkedArray:
    """Return (N,) bool, null where missing."""
    return pc.match_substring_regex(texts, unit_pattern(unit))
