"""Recognises numbers and dates in forms that are not read, to say how to write them instead.

No form is read by guessing (docs/decisions/0014-table-dialects-frozen.md): `1.2k` may be an amount
or the name of a product.
"""

import re
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

_UNIT = r"[$£€¥₹₩₽₺]?"
_PLAIN = rf"[+-]?\s*{_UNIT}\s*[\d.,]*\d\s*[%€]?"
_SAMPLE = 1000
_MIN_SHARE = 0.05
"""Share of values in the form, among the present ones, from which the form is reported."""


@dataclass(frozen=True)
class Form:
    """A way to write numbers or dates that is not read.

    Attributes:
        pattern: Regular expression of a whole value.
        meaning: The likely meaning of the values, and the type that they are not read as.
        instead: How to write such a value; empty: without what follows the number.
    """

    pattern: str
    meaning: str
    instead: str = ""


FORMS = (
    Form(
        rf"\({_UNIT}\s*[\d.,]*\d\s*[%€]?\)",
        "amounts in parentheses, which are not read as negative numbers",
        "-1000 instead of (1,000)",
    ),
    Form(
        rf"{_PLAIN}\s?[kKMB]",
        "numbers with a letter for thousands or millions, which are not read as numbers",
        "1200 instead of 1.2k",
    ),
    Form(
        rf"{_PLAIN}\s[A-Za-zµ°Ω][A-Za-z²³/.]{{0,11}}",
        "numbers with a unit, which are not read as numbers",
    ),
    Form(
        r"\d{4}[-/.]\d{1,2}|\d{1,2}[-/.]\d{4}",
        "months without a day, which are not read as dates",
        "2023-12-01 instead of 2023-12",
    ),
)


def find_unread_form(texts: pa.ChunkedArray) -> Form | None:
    """Return the form of a column whose values are numbers, or dates, that are not all read.

    Args:
        texts: (N,) texts without surrounding blanks, null where missing.
    """
    some = texts.drop_null().slice(0, _SAMPLE)
    if not len(some):
        return None
    is_plain = pc.match_substring_regex(some, f"^({_PLAIN})$")
    for form in FORMS:
        is_form = pc.match_substring_regex(some, f"^({form.pattern})$")
        is_known = pc.or_(is_form, is_plain)
        if pc.mean(is_form).as_py() >= _MIN_SHARE and pc.mean(is_known).as_py() > 0.5:
            return form if form.instead else _shorten(form, some.filter(is_form)[0].as_py())
    return None


def _shorten(form: Form, example: str) -> Form:
    """Return the form with an example of how to write its number alone."""
    number = re.match(_PLAIN, example)
    assert number is not None
    return replace(form, instead=f"{number[0].strip()} instead of {example}")


def advise(form: Form) -> str:
    """Return what the values are and how to write them, as the end of `column x has`."""
    return f"{form.meaning}; write {form.instead}"
