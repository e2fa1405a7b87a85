"""Reads dates as people write them, and derives the numbers that a model learns from.

The service derives these numbers when it inspects a table. Reports contain the code of this module,
so that users of a model derive the same numbers.
"""

import re
from datetime import UTC, datetime
from math import cos, pi, sin

PART = r"(\d{1,4}|[A-Za-z]{3,9})"
TIME = r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)? ?([AaPp][Mm])? ?(?:Z|UTC|[+-]\d\d:?\d\d)?"
DATE = re.compile(rf"{PART}[-/. ] ?{PART}[-/. ,] ?{PART}(?:[T ] ?{TIME})?")
COMPACT = re.compile(r"^((?:19|20)\d\d)(\d\d)(\d\d)(?:\.0)?(?=$|[T ])")
SHORT = re.compile(r"(?:\d\d\.\d\d\.|\d\d?/\d\d?/|\d\d?-\d\d?-)\d\d(?=$|[T ])")
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def read_date(text: str, *, day_first: bool) -> datetime | None:
    """Read a date with or without a time; return None if the text is not a date.

    Dates that begin with the year, such as `2024-01-31T10:00` or `20240131`, and dates with the
    name of a month can be read in only one way. Time zones are ignored. A year of two digits comes
    last and is from 1969 to 2068, as in POSIX; `1.2.13` is not a date, because versions look alike.

    Args:
        text: The date.
        day_first: Whether `03/04/2024` is the third of April.
    """
    text = COMPACT.sub(r"\1-\2-\3", text.strip())
    found = DATE.fullmatch(text)
    if not found:
        return None
    first, second, third, hour, minute, seconds, half = found.groups()
    if len(first) == 4 and first.isdigit():
        year, month, day = first, second, third
    elif second.isalpha() or (day_first and first.isdigit()):
        year, month, day = third, second, first
    else:
        year, month, day = third, first, second
    if month.isalpha():
        name = month[:3].lower()
        month = MONTHS.index(name) + 1 if name in MONTHS else 0
    if half:
        hour = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    if len(year) == 2 and (second.isalpha() or first.isalpha() or SHORT.match(text)):
        year = f"{20 if int(year) < 69 else 19}{year}"
    if len(year) < 4:
        return None
    written = (year, month, day, hour, minute, seconds)
    try:
        y, m, d, h, n, s = (int(number or 0) for number in written)
        return datetime(y, m, d, h, n, s, tzinfo=UTC)
    except ValueError:
        return None


def derive_from_date(moment: datetime) -> dict[str, float]:
    """Return the numbers that are derived from a date.

    `ordinal` counts days since 1970. The week begins with Monday, 0. Sines and cosines make the
    last hour, day and month neighbours of the first.
    """
    hour = moment.hour + moment.minute / 60 + moment.second / 3600
    ordinal = moment.toordinal() - 719163 + hour / 24
    weekday = moment.weekday()
    numbers: dict[str, float] = {"year": moment.year, "month": moment.month, "day": moment.day}
    numbers.update(weekday=weekday, hour=hour, ordinal=ordinal)
    shares = {"month": (moment.month - 1) / 12, "weekday": weekday / 7, "hour": hour / 24}
    for name, share in shares.items():
        numbers |= {f"{name}_sin": sin(2 * pi * share), f"{name}_cos": cos(2 * pi * share)}
    return numbers
