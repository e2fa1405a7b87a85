"""Replaces columns of dates by numbers that are derived from them, such as year and weekday."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.dates import derive_from_date, read_date
from redkiln.tables import DAYS_SINCE, Derived, TableOptions
from service.datasets.inspect.report import DERIVED_NOTE, quote, quote_use, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles, Use
from service.datasets.inspect.tables.value_types.mixed import MAX_WORDS_FOR_NONE

_SAMPLE = 200
_MIN_SHARE = 0.99
"""Share of dates among the values of a column of dates; other values count as missing."""
_MIXED_SHARE = 0.8
"""Share of dates from which a column has dates and, by mistake, other values."""
_COMPACT = (19000101, 20991231)
"""First and last whole number that may be a date without separators."""
_MOST_COMPARED = 4
"""Columns of dates whose distances become columns, the first ones."""
_SHORT = r"^(?P<first>\d\d)[-/.](?P<month>\d\d)[-/.](?P<last>\d\d)(?:$|[T ])"


@dataclass(frozen=True)
class _Dates:
    """The dates of a column, in one way of reading them.

    Attributes:
        rows: (N,) index of each row's value among the moments, -1 where missing.
        moments: Date of each different value; None if the value is not a date.
        texts: The different values.
    """

    day_first: bool
    rows: np.ndarray
    moments: list[datetime | None]
    texts: list[str]

    @property
    def ordinals(self) -> np.ndarray:
        """(N,) days since 1970, NaN where missing."""
        known = [m and derive_from_date(m)["ordinal"] for m in self.moments]
        values = np.array([*known, None], np.float64)  # -1 finds the last one
        found: np.ndarray = values[self.rows]
        return found


def derive_dates(profiles: dict[str, Profile], roles: Roles, options: TableOptions) -> None:
    """Replace columns of dates by numeric columns, unless the user chose their type.

    Args:
        profiles: Profiles of all columns; receives those of the derived ones.
        roles: Roles of the columns; receives those of the derived ones, and notes.
        options: The user's options.
    """
    if roles.task == "text-classification":
        return
    found = {
        name: readings
        for name in roles.of_type("ignored", "categorical", "numeric", "text")
        if name not in options.columns and (readings := _read(profiles[name]))
    }
    for name in [name for name in found if _may_begin_with_year(profiles[name])]:
        roles.notes.append(
            f"column {show(name)} is not read as dates: its years have two digits, so the first or "
            "the last part may be the year; write them as 2024-12-31"
        )
        del found[name]
    for name in roles.of_type("ignored", "categorical", "text"):
        if name not in options.columns and name not in found:
            _note_mixed(profiles[name], roles)
    clear = {readings[0].day_first for readings in found.values() if len(readings) == 1}
    used: dict[str, _Dates] = {}
    for name, readings in found.items():
        chosen = [dates for dates in readings if clear == {dates.day_first}] or readings
        if len(chosen) > 1 and chosen[0].moments != chosen[1].moments:
            roles.notes.append(
                f"column {show(name)} is not read as dates: the first part may be the day or the "
                "month; write them as 2024-12-31"
            )
            continue
        _replace(name, chosen[0], profiles, roles, options)
        used[name] = chosen[0]
    _derive_days_between(used, profiles, roles, options)


def _read(found: Profile) -> list[_Dates]:
    """Return the ways in which a column can be read as dates; none if it has other values."""
    if not found.num_present or (found.numbers is not None and not _are_compact(found)):
        return []
    sample = found.texts.drop_null().slice(0, _SAMPLE).to_pylist()
    usable = [order for order in (False, True) if _share(sample, day_first=order) >= _MIN_SHARE]
    if not usable:
        return []
    if all(text[:4].isdecimal() for text in sample):  # the year comes first
        usable = usable[:1]
    encoded = found.texts.combine_chunks().dictionary_encode()
    rows = pc.fill_null(encoded.indices, -1).to_numpy()
    counts = np.bincount(rows[rows >= 0], minlength=len(encoded.dictionary))
    readings = []
    for day_first in usable:
        texts = encoded.dictionary.to_pylist()
        moments = [read_date(text, day_first=day_first) for text in texts]
        are_dates = np.array([moment is not None for moment in moments])
        if counts[are_dates].sum() >= _MIN_SHARE * found.num_present:
            readings.append(_Dates(day_first, rows, moments, texts))
    # A column that is clear has, in the other way, months above twelve.
    most = max((_count(dates, counts) for dates in readings), default=0)
    return [dates for dates in readings if _count(dates, counts) == most]


def _note_mixed(found: Profile, roles: Roles) -> None:
    """Add a note on a column that mostly has dates, with the words that keep it from being read."""
    texts = found.texts.drop_null().slice(0, _SAMPLE).to_pylist()
    shares = {order: _share(texts, day_first=order) for order in (False, True)} if texts else {}
    day_first = max(shares, key=shares.__getitem__, default=False)
    if shares.get(day_first, 0.0) < _MIXED_SHARE:
        return
    counts = pc.value_counts(found.texts.drop_null()).to_pylist()
    others = [one for one in counts if read_date(one["values"], day_first=day_first) is None]
    if not others:
        return
    others.sort(key=lambda one: -int(one["counts"]))
    words = [one["values"] for one in others]
    remedy = "correct them, or leave these fields empty"
    if len(words) <= MAX_WORDS_FOR_NONE:
        options = roles.words_for_none.advise(words)
        remedy += f", or list all words that mean a missing value ({options})"
    num = sum(int(one["counts"]) for one in others)
    roles.notes.append(
        f"column {show(found.name)} has dates, but {num:,} of {found.num_present:,} values are not "
        f"dates (the most frequent is {quote(words[0])}), so it is not read as dates; {remedy}"
    )


def _are_compact(found: Profile) -> bool:
    """Return whether all numbers of a column may be dates such as 20240131."""
    if found.numbers is None or not found.are_integers:
        return False
    first, last = _COMPACT
    return bool(np.nanmin(found.numbers) >= first and np.nanmax(found.numbers) <= last)


def _may_begin_with_year(found: Profile) -> bool:
    """Return whether dates such as `24-01-31` vary less in their first part than in their last.

    Days differ more than years. So if the first part is the day, it has more values.
    """
    parts = pc.extract_regex(found.texts.drop_null().unique(), _SHORT)
    if parts.null_count or pc.max(pc.cast(parts.field("month"), pa.int8())).as_py() > 12:
        return False
    first, last = (pc.count_distinct(parts.field(name)).as_py() for name in ("first", "last"))
    return bool(first < last)


def _share(texts: list[str], *, day_first: bool) -> float:
    read: Callable[[str], datetime | None] = partial(read_date, day_first=day_first)
    return sum(read(text) is not None for text in texts) / len(texts)


def _count(dates: _Dates, counts: np.ndarray) -> int:
    return sum(
        int(count)
        for count, moment in zip(counts, dates.moments, strict=True)
        if moment is not None
    )


def _replace(
    name: str,
    dates: _Dates,
    profiles: dict[str, Profile],
    roles: Roles,
    options: TableOptions,
) -> None:
    derived = [
        found
        for found in _derive(name, dates, taken=set(profiles))
        if options.columns.get(found.name) != "ignored"
    ]
    if not derived:
        return
    parts = ", ".join(show(found.name) for found in derived)
    is_date = np.array([*(moment is not None for moment in dates.moments), False])[dates.rows]
    profiles[name] = replace(profiles[name], is_missing=~is_date)
    profiles.update({found.name: found for found in derived})
    roles.replace(
        name,
        Use("ignored", f"{DERIVED_NOTE} {parts}"),
        {found.name: Use("numeric") for found in derived},
    )
    roles.notes.append(
        f"column {show(name)} has dates; {parts} were derived from them; to change it: "
        f"column={quote_use(name, 'categorical')} or column={quote_use(name, 'ignored')}"
        f"{_describe_others(dates)}"
    )


def _describe_others(dates: _Dates) -> str:
    """Describe the few values of a column of dates that are not dates; empty without any."""
    others = [place for place, moment in enumerate(dates.moments) if moment is None]
    if not others:
        return ""
    num = int(np.isin(dates.rows, others).sum())
    values = (
        "1 value is not a date and counts"
        if num == 1
        else f"{num:,} values are not dates and count"
    )
    return f"; {values} as missing, such as {quote(dates.texts[others[0]])}"


def _derive(name: str, dates: _Dates, *, taken: set[str]) -> list[Profile]:
    """Return a numeric column for each part of the dates that differs between rows."""
    known = [derive_from_date(moment) for moment in dates.moments if moment is not None]
    is_known = np.array([*(moment is not None for moment in dates.moments), False])
    columns = []
    for part in known[0]:
        values = np.full(len(is_known), np.nan)  # the last one is found by -1
        values[is_known] = [numbers[part] for numbers in known]
        numbers = values[dates.rows]
        if np.nanmin(numbers) < np.nanmax(numbers):
            columns.append(_build(name, part, numbers, day_first=dates.day_first, taken=taken))
    return columns


def _derive_days_between(
    used: dict[str, _Dates], profiles: dict[str, Profile], roles: Roles, options: TableOptions
) -> None:
    """Add the days between two columns of dates: how late, how long, how old."""
    for (since, start), (name, end) in combinations(list(used.items())[:_MOST_COMPARED], 2):
        own = f"{name}.{DAYS_SINCE}_{since}"
        days = end.ordinals - start.ordinals
        is_known = np.isfinite(days)
        differs = is_known.any() and np.nanmin(days) < np.nanmax(days)
        if not differs or own in profiles or options.columns.get(own) == "ignored":
            continue
        origin = Derived(
            column=name,
            part=DAYS_SINCE,
            day_first=end.day_first,
            since=since,
            since_day_first=start.day_first,
        )
        raw = pa.chunked_array([pa.array(days)])
        nothing = np.zeros(len(days), bool)
        profiles[own] = Profile(own, raw, ~is_known, days, nothing, derived=origin)
        roles.replace(name, roles.uses[name], {own: Use("numeric")})
        roles.notes.append(
            f"{show(own)} is the number of days between two dates; to leave it out: "
            f"column={quote_use(own, 'ignored')}"
        )


def _build(
    name: str, part: str, numbers: np.ndarray, *, day_first: bool, taken: set[str]
) -> Profile:
    own = f"{name}.{part}"
    while own in taken:
        own += "_"
    return Profile(
        own,
        pa.chunked_array([pa.array(numbers)]),
        is_missing=np.isnan(numbers),
        numbers=numbers,
        is_not_number=np.zeros(len(numbers), bool),
        derived=Derived(column=name, part=part, day_first=day_first),
    )
