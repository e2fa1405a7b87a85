"""What a comma in the numbers of a text column means: decimals (`3,5`) or thousands (`1,234,567`).

The numbers of a column have one decimal mark, a point or a comma; the other mark may separate their
thousands. If all of them can be read both ways, like `765,100`, the other columns or the user's
options decide. A column with points but no commas has decimal points (`1.234`), unless that is not
possible (`1.234.567`) or another column has decimal commas.

These rules are frozen (docs/decisions/0014-table-dialects-frozen.md).
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.amounts import number_pattern
from redkiln.tables import DecimalMark

MARKS: dict[DecimalMark, str] = {".": "points", ",": "commas"}
OTHER: dict[DecimalMark, DecimalMark] = {".": ",", ",": "."}
SEMICOLONS = " because semicolons separate the fields"
"""Why commas that may separate thousands are decimal marks, if no number shows it."""


@dataclass(frozen=True)
class Commas:
    """How the commas of a column are read.

    Attributes:
        decimal: The decimal mark; None if it may be either.
        why: End of a message with the reason, if the column itself does not decide it.
        mark: The mark to explain in the message: points if the numbers have no comma.
    """

    decimal: DecimalMark | None
    why: str = ""
    mark: DecimalMark = ","

    def describe(self, columns: str) -> str:
        """Return a note on how the marks are read and how to change it.

        Args:
            columns: Names of the columns, as shown in the note.
        """
        assert self.decimal is not None
        meaning = "are decimal marks" if self.mark == self.decimal else "separate thousands"
        return (
            f"the {MARKS[self.mark]} in the numbers of {columns} {meaning}{self.why}; "
            f"to change it: decimal={OTHER[self.decimal]}"
        )


def find_commas(texts: pa.ChunkedArray) -> Commas | None:
    """Find out what the commas in a column's numbers mean; None without commas or if they conflict.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
    """
    is_number = _are_numbers(texts, None)
    has_comma = pc.any(pc.and_(is_number, pc.match_substring(texts, ","))).as_py()
    count = pc.sum(is_number)
    marks = [mark for mark in MARKS if pc.sum(_are_numbers(texts, mark)) == count]
    if has_comma and marks:
        return Commas(marks[0] if len(marks) == 1 else None)
    return Commas(",", mark=".") if marks == [","] else None


def may_separate(texts: pa.ChunkedArray) -> bool:
    """Return whether the numbers have points and every point may separate thousands."""
    has_point = pc.match_substring(texts, ".")
    is_number = _are_numbers(texts, ".")
    pointed = pc.and_(is_number, has_point)
    return bool(pc.any(pointed).as_py()) and bool(
        pc.all(pc.or_(pc.invert(pointed), _are_numbers(texts, ","))).as_py()
    )


def separates_thousands(texts: pa.ChunkedArray, decimal: DecimalMark) -> bool:
    """Return whether a number with this decimal mark has thousands separators."""
    has_other = pc.match_substring(texts, OTHER[decimal])
    return bool(pc.any(pc.and_(has_other, _are_numbers(texts, decimal))).as_py())


def count_numbers(texts: pa.ChunkedArray, decimal: DecimalMark | None) -> int:
    """Return how many texts are numbers with this decimal mark; None accepts either mark."""
    return int(pc.sum(_are_numbers(texts, decimal)).as_py() or 0)


def write_plainly(texts: pa.ChunkedArray, decimal: DecimalMark) -> pa.ChunkedArray:
    """Rewrite numbers with a decimal point and no thousands separators; null if not a number.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
        decimal: The decimal mark.
    """
    is_number = _are_numbers(texts, decimal)
    plain = pc.replace_substring(texts, OTHER[decimal], "")
    plain = plain if decimal == "." else pc.replace_substring(plain, ",", ".")
    return pc.if_else(is_number, plain, pa.scalar(None, pa.string()))


def _are_numbers(texts: pa.ChunkedArray, decimal: DecimalMark | None) -> pa.ChunkedArray:
    """Return (N,) bool, null where missing."""
    if decimal is not None:
        return pc.match_substring_regex(texts, number_pattern(decimal))
    return pc.or_(_are_numbers(texts, "."), _are_numbers(texts, ","))
