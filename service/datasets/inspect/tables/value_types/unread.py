"""Recognises numbers and dates in forms that are not read, to say how to write them instead.

No form is read by guessing (docs/decisions/0014-table-dialects-frozen.md): `1.2k` may be an amount
or the name of a product.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.report import quote, quote_use, show

_UNIT = r"[$£€¥₹₩₽₺]?"
PLAIN = rf"[+-]?\s*{_UNIT}\s*[\d.,]*\d\s*[%€]?"
_ATTACHED = (
    "km|cm|mm|µm|m|mi|ft|in|yd|kg|mg|µg|g|lbs?|oz|secs?|ms|mins?|hrs?|h|days|yrs?|years|ml|cl|L"
    "|kph|mph|kmh|km/h|m/s|kmpl|mpg|rpm|hp|cc|kV|mV|kWh?|MW|m?Ah|[kMG]?Hz|[hkM]?Pa|bar|psi"
    "|[kMGT]B|kcal|kJ|px|dB|mmHg|°C|°F"
)
"""Units that follow a number without a blank. `12A` and `3C` are rather names than amounts."""
WORD_UNIT = rf"(\s[A-Za-zµ°Ω][A-Za-z²³/.]{{0,11}}|{_ATTACHED})"
"""What may follow a number as its unit; `1.2 k` is another form."""
_SAMPLE = 1000
_MIN_SHARE = 0.05
"""Share of values in the form, among the present ones, from which the form is reported."""
NOT_USED = "not used"
"""What a note says of a column that is already left out."""
SHOWN = 5
"""Columns and units that a message names."""


@dataclass(frozen=True)
class Form:
    """A way to write numbers or dates that is not read.

    Attributes:
        pattern: Regular expression of a whole value.
        meaning: The likely meaning of the values, and the type that they are not read as.
        instead: How to write such a value; empty: without what follows the number.
        units: Words after the numbers, the most frequent first.
        kinds: All units, each with its number of values and an example.
    """

    pattern: str
    meaning: str
    instead: str = ""
    units: tuple[str, ...] = ()
    kinds: str = ""


WITH_UNIT = "numbers with a unit"
FORMS = (
    Form(
        rf"\({_UNIT}\s*[\d.,]*\d\s*[%€]?\)",
        "amounts in parentheses, which are not read as negative numbers",
        "-1000 instead of (1,000)",
    ),
    Form(
        rf"{PLAIN}\s?[kKMB]",
        "numbers with a letter for thousands or millions, which are not read as numbers",
        "1200 instead of 1.2k",
    ),
    Form(
        PLAIN + WORD_UNIT,
        f"{WITH_UNIT}, which are not read as numbers",
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
    present = texts.drop_null()
    some = present.slice(0, _SAMPLE)
    if not len(some):
        return None
    is_plain = pc.match_substring_regex(some, f"^({PLAIN})$")
    for form in FORMS:
        is_form = pc.match_substring_regex(some, f"^({form.pattern})$")
        is_known = pc.or_(is_form, is_plain)
        if pc.mean(is_form).as_py() >= _MIN_SHARE and pc.mean(is_known).as_py() > 0.5:
            if form.instead:
                return form
            are_all = pc.match_substring_regex(present, f"^({form.pattern})$")
            return _shorten(form, present.filter(are_all))
    return None


def list_kinds(texts: pa.ChunkedArray) -> list[str]:
    """Return each kind of value with its number and an example, the most frequent kind first.

    Numbers with the same unit are one kind, and so is each word.

    Args:
        texts: (N,) texts without surrounding blanks.
    """
    groups = pa.table({"kind": strip_numbers(texts), "text": texts})
    found = groups.group_by("kind", use_threads=False).aggregate(
        [("text", "count"), ("text", "first")]
    )
    kinds = zip(found["text_count"].to_pylist(), found["text_first"].to_pylist(), strict=True)
    return [f"{num:,} like {quote(text[:40])}" for num, text in sorted(kinds, key=lambda k: -k[0])]


def join_kinds(kinds: list[str]) -> str:
    """Return the first kinds for a message."""
    more = f" and {len(kinds) - SHOWN} other kinds" if len(kinds) > SHOWN else ""
    return ", ".join(kinds[:SHOWN]) + more


def strip_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return (N,) what follows the numbers at the beginning of some texts."""
    return pc.replace_substring_regex(texts, rf"^{PLAIN}\s?", "")


def _shorten(form: Form, examples: pa.ChunkedArray) -> Form:
    """Return the form with its units, and an example of how to write its number alone."""
    example = examples[0].as_py()
    number = re.match(PLAIN, example)
    assert number is not None
    units = pc.value_counts(strip_numbers(examples)).to_pylist()
    units.sort(key=lambda unit: -unit["counts"])
    return replace(
        form,
        instead=f"{number[0].strip()} instead of {example}",
        units=tuple(unit["values"] for unit in units),
        kinds=join_kinds(list_kinds(examples)),
    )


def advise(form: Form) -> str:
    """Return what the values are and how to write them, as the end of `column x has`."""
    if not form.units:
        return f"{form.meaning}; write {form.instead}"
    if len(form.units) == 1:
        meaning, all_in_one = form.meaning.replace("a unit", f"the unit {quote(form.units[0])}"), ""
    else:
        meaning, all_in_one = (
            form.meaning.replace("a unit", f"{len(form.units)} units ({form.kinds})"),
            ", all in one unit",
        )
    return f"{meaning}; write {form.instead}{all_in_one}"


def note_forms(forms: Mapping[str, Form], *, used: str, is_target: bool = False) -> str:
    """Return a note on columns of the same form.

    Args:
        forms: The form in each column, by its name; the columns differ at most in their units.
        used: How the columns are used now, as in `used as categories`.
        is_target: Whether the column is the target, which cannot be left out.
    """
    first, form = next(iter(forms.items()))
    what = f"column {show(first)} has {advise(form)}; as it is, the column is {used}"
    leave_out = f"; to leave it out: column={quote_use(first, 'ignored')}"
    if len(forms) > 1:
        shown = list(forms.items())[:SHOWN]
        listed = ", ".join(f"{show(name)} (write {one.instead})" for name, one in shown)
        more = f" and {len(forms) - SHOWN} more" if len(forms) > SHOWN else ""
        what = (
            f"{len(forms)} columns have {form.meaning}: {listed}{more}; as they are, the columns "
            f"are {used}"
        )
        leave_out = f"; to leave them out: {quote_uses(forms, 'ignored')}"
    return what if is_target or used == NOT_USED else what + leave_out


def quote_uses(names: Iterable[str], use: str) -> str:
    """Return the options that give the first of some columns a use."""
    return " ".join(f"column={quote_use(name, use)}" for name in list(names)[:SHOWN])
