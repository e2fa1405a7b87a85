"""What a comma in the numbers of a text column means: decimals (`3,5`) or thousands (`1,234,567`).

Numbers of one column have one decimal mark, a point or a comma, and the other mark may separate
their thousands. Where all of them can be read in either way, as `765,100` can, the rest of the file
or its owner has to tell which it is.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import DecimalMark

MEANINGS: dict[DecimalMark, str] = {".": "separate thousands", ",": "are decimal"}
OTHER: dict[DecimalMark, DecimalMark] = {".": ",", ",": "."}


@dataclass(frozen=True)
class Commas:
    """What the commas of a column were taken for.

    Attributes:
        decimal: the mark before decimals; None where it may be either.
        why: how it was told where the column itself does not tell, as a message about it ends.
    """

    decimal: DecimalMark | None
    why: str = ""


def find_commas(texts: pa.ChunkedArray) -> Commas | None:
    """What the commas of a column's numbers mean; None if none has one, or they are at odds.

    Args:
        texts: (N,) null where missing, without blanks around them.
    """
    is_number = _are_numbers(texts, None)
    if not pc.any(pc.and_(is_number, pc.match_substring(texts, ","))).as_py():
        return None
    count = pc.sum(is_number)
    marks = [mark for mark in MEANINGS if pc.sum(_are_numbers(texts, mark)) == count]
    if not marks:
        return None
    return Commas(marks[0] if len(marks) == 1 else None)


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
