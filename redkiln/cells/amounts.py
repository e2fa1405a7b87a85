"""Reads numbers as a table's file writes them: with a unit, decimal commas, thousands separators.

The service finds out how the columns of a table are written. Reports contain the code of this
module, so that users of a model read the same numbers.
"""

import re
from typing import NamedTuple

UNITS_BEFORE = "$£€¥₹₩₽₺"
UNITS_AFTER = "%€$£¥₹₩₽₺"
PERCENT = "%"
CODES = {
    "$": "USD",
    "£": "GBP",
    "€": "EUR",
    "¥": "JPY",
    "₹": "INR",
    "₩": "KRW",
    "₽": "RUB",
    "₺": "TRY",
}
"""Codes of currencies (ISO 4217) that are read as their sign."""
OTHER_MARK = {".": ",", ",": "."}
MARK_NAMES = {".": "a point", ",": "a comma"}
SIGN = r"[+-]?"
DASHES = "(?:--?|[\u2013\u2014])"
ROUND = rf"([0-9][.,]){DASHES}(\s*[^0-9\s]{{0,3}})$"
"""A dash for no cents, as in `143,-`, with the mark before it, and a unit after it."""


def number_pattern(decimal: str) -> str:
    """Return the pattern of a number with this decimal mark; the other may separate thousands."""
    mark, group = rf"\{decimal}", rf"\{OTHER_MARK[decimal]}"
    whole = (
        rf"[1-9][0-9]{{0,2}}({group}[0-9]{{3}})+({mark}[0-9]*)?|[0-9]+{mark}?[0-9]*|{mark}[0-9]+"
    )
    return rf"^{SIGN}({whole})([eE][+-]?[0-9]+)?$"


def unit_spellings(unit: str) -> str:
    """Return the pattern of a unit: its sign or the currency's code, or one `day` of `days`."""
    spelt = [unit, CODES[unit]] if unit in CODES else [unit]
    if has_plural(unit):
        spelt.append(unit[:-1])
    return f"({'|'.join(map(re.escape, spelt))})"


def has_plural(unit: str) -> bool:
    """Return whether a unit is a word in plural: `days`, but not `ms`."""
    return len(unit) > 2 and unit.isalpha() and unit.endswith("s")


def unit_pattern(unit: str) -> str:
    """Return the pattern of an amount with a unit, before or after the number."""
    amount, spelt = r"[0-9.,]*[0-9][0-9.,]*", unit_spellings(unit)
    before, after = rf"{SIGN}{spelt}\s*{SIGN}{amount}", rf"{SIGN}{amount}\s*{spelt}"
    forms = [before] * (unit in UNITS_BEFORE) + [after]
    return f"^({'|'.join(forms)})$"


class Amount(NamedTuple):
    """A number that was read from a text.

    Attributes:
        doubt: Why it may be meant otherwise; empty if it is written as in the training table.
        advice: How to write it instead.
    """

    number: float
    doubt: str = ""
    advice: str = ""


def read_amount(
    text: str, *, unit: str, decimal: str, separates_thousands: bool | None = None
) -> Amount:
    """Read a number as the training table writes it, or otherwise with a doubt.

    Args:
        text: The number as written.
        unit: Unit of the training table's numbers; empty without one.
        decimal: Decimal mark of the training table.
        separates_thousands: Whether its numbers have thousands separators; None if not known.

    Raises:
        ValueError: The text is not a number.
    """
    plain = text = re.sub(ROUND, r"\g<1>00\2", text.strip())
    if unit and re.match(unit_pattern(unit), text):
        plain = re.sub(rf"\s*{unit_spellings(unit)}\s*", "", text)
    other = OTHER_MARK[decimal]
    is_usual, is_other = (re.match(number_pattern(mark), plain) for mark in (decimal, other))
    if not is_usual and not is_other:
        raise ValueError(f"{text!r} is not a number")
    mark = decimal if is_usual else other
    number = float(plain.replace(OTHER_MARK[mark], "").replace(mark, "."))
    swapped = text.translate(str.maketrans(".,", ",."))
    if not is_usual:
        doubt = f"the training table writes decimals after {MARK_NAMES[decimal]}"
        return Amount(number, doubt, f"write {swapped!r}")
    if is_other and other in plain and separates_thousands is False:
        doubt = "the training table does not separate thousands"
        return Amount(number, doubt, f"write {text.replace(other, '')!r} or {swapped!r}")
    if unit == PERCENT and PERCENT not in text:
        share = f" or {f'{100 * number:.15g}%'!r}" if abs(number) <= 1 else ""
        doubt = "the training table writes % after the numbers"
        return Amount(number, doubt, f"write {f'{text}%'!r}{share}")
    return Amount(number)


def describe_doubt(text: str, amount: Amount) -> str:
    """Return how a doubtful number was read, why this is doubtful, and what to write."""
    return f"{text!r} was read as {amount.number:.15g}, although {amount.doubt}; {amount.advice}"
