"""Numbers with a unit, such as `$1,234` and `54%`, and numbers that are codes, such as `01234`."""

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.amounts import ROUND, UNITS_AFTER, UNITS_BEFORE, unit_pattern, unit_spellings

POINT_UNITS = frozenset("$£¥₹₩")
"""Units of countries that write decimals after a point."""


def find_unit(texts: pa.ChunkedArray | pa.Array) -> str:
    """Return the unit that more than half of some texts have; or an empty text."""
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
        unit: The unit, one character.
    """
    plain = pc.replace_substring_regex(texts, rf"\s*{unit_spellings(unit)}\s*", "")
    return pc.if_else(pc.fill_null(_has_unit(texts, unit), False), plain, texts)


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
