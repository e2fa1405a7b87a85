"""What a comma in the numbers of a text column means: decimals (`3,5`) or thousands (`1,234,567`).

Numbers of one column have one decimal mark, a point or a comma, and the other mark may separate
their thousands. Where all of them can be read in either way, as `765,100` can, the rest of the file
or its owner has to tell which it is. A point alone stands before decimals (`1.234`) unless that
makes no number (`1.234.567`), or commas do in another column.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import DecimalMark

MARKS: dict[DecimalMark, str] = {".": "points", ",": "commas"}
OTHER: dict[DecimalMark, DecimalMark] = {".": ",", ",": "."}


@dataclass(frozen=True)
class Commas:
    """What the commas of a column were taken for.

    Attributes:
        decimal: the mark before decimals; None where it may be either.
        why: how it was told where the column itself does not tell, as a message about it ends.
        mark: what the numbers have that was to be explained: points where they have no comma.
    """

    decimal: DecimalMark | None
    why: str = ""
    mark: DecimalMark = ","

    def describe(self, columns: str) -> str:
        """What was done, and how to have it otherwise.

        Args:
            columns: their names, as they are shown.
        """
        assert self.decimal is not None
        meaning = "are decimal marks" if self.mark == self.decimal else "separate thousands"
        return (
            f"the {MARKS[self.mark]} in the numbers of {columns} {meaning}{self.why}; "
            f"to change this: decimal={OTHER[self.decimal]}"
        )


def find_commas(texts: pa.ChunkedArray) -> Commas | None:
    """What the commas of a column's numbers mean; None if nothing is to be explained, or at odds.

    Args:
        texts: (N,) null where missing, without blanks around them.
    """
    is_number = _are_numbers(texts, None)
    has_comma = pc.any(pc.and_(is_number, pc.match_substring(texts, ","))).as_py()
    count = pc.sum(is_number)
    marks = [mark for mark in MARKS if pc.sum(_are_numbers(texts, mark)) == count]
    if has_comma and marks:
        return Commas(marks[0] if len(marks) == 1 else None)
    return Commas(",", mark=".") if marks == [","] else None


def may_separate(texts: pa.ChunkedArray) -> bool:
    """Whether every point in a column's numbers, and there are some, may separate thousands."""
    has_point = pc.match_substring(texts, ".")
    is_number = _are_numbers(texts, ".")
    pointed = pc.and_(is_number, has_point)
    return bool(pc.any(pointed).as_py()) and bool(
        pc.all(pc.or_(pc.invert(pointed), _are_numbers(texts, ","))).as_py()
    )


def count_numbers(texts: pa.ChunkedArray, decimal: DecimalMark | None) -> int:
    """How many texts are numbers by this decimal mark, or by either one where it is not known."""
    return int(pc.sum(_are_numbers(texts, decimal)).as_py() or 0)


def write_plainly(texts: pa.ChunkedArray, decimal: DecimalMark) -> pa.ChunkedArray:
    """Numbers as they are written in a program, null where the mark makes none of a text.

    Args:
        texts: (N,) null where missing, without blanks around them.
        decimal: the mark before decimals.
    """
    is_number = _are_numbers(texts, decimal)
    plain = pc.replace_substring(texts, OTHER[decimal], "")
    plain = plain if decimal == "." else pc.replace_substring(plain, ",", ".")
    return pc.if_else(is_number, plain, pa.scalar(None, pa.string()))


def _are_numbers(texts: pa.ChunkedArray, decimal: DecimalMark | None) -> pa.ChunkedArray:
    """(N,) bool, null where missing."""
    if decimal is not None:
        return pc.match_substring_regex(texts, _pattern(decimal))
    return pc.or_(_are_numbers(texts, "."), _are_numbers(texts, ","))


def _pattern(decimal: DecimalMark) -> str:
    mark, group = rf"\{decimal}", rf"\{OTHER[decimal]}"
    whole = rf"[1-9]\d{{0,2}}({group}\d{{3}})+({mark}\d*)?|\d+{mark}?\d*|{mark}\d+"
    return rf"^[+-]?({whole})([eE][+-]?\d+)?$"
