"""Finds the words that count as missing in a table, and lists them in advice on `missing`.

The option replaces the words in effect. So advice repeats those that the table has, but not a word
that looks like a category.

Shapes: N rows.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.dates import read_date
from service.datasets.inspect.report import quote, show
from service.datasets.inspect.tables.profile import Profile

_FREQUENT = 0.05
"""Share of rows from which on a word that counts as missing may be a category."""
_SAMPLE = 20
"""First values of a column that show whether it has dates."""


@dataclass
class WordsForNone:
    """The words that count as missing in a table.

    Attributes:
        words: The words, as the table has them.
        categories: For each one that looks like a category, the columns where it does; in one
            spelling.
        needed: Words of columns of numbers or dates, in lower case, which must stay missing.
    """

    words: list[str] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)

    def extend(self, words: Iterable[str]) -> tuple[list[str], str]:
        """Return the words for `missing` so that more words count, and a remark on categories.

        Args:
            words: The words that do not count as missing yet.

        Returns:
            Such as `-1`, and `'none' of column fee is then a category; ...` or nothing.
        """
        kept = [word for word in self.categories if word.lower() in self.needed]
        left_out = [word for word in self.categories if word not in kept]
        spellings = {word.lower() for word in left_out}
        repeated = [word for word in self.words if word.lower() not in spellings]
        remarks = []
        if left_out:
            are = "is then a category" if len(left_out) == 1 else "are then categories"
            it = "it means" if len(left_out) == 1 else "they mean"
            options = list_options(left_out)
            remarks.append(f"{self._name(left_out)} {are}; if {it} no value, add {options}")
        if kept:
            remarks.append(f"{self._name(kept)} still count{'s' * (len(kept) == 1)} as missing")
        return list(dict.fromkeys([*words, *repeated])), "; ".join(remarks)

    def advise(self, words: Iterable[str]) -> str:
        """Return the options for `extend`, and its remark."""
        listed, remark = self.extend(words)
        return "; ".join(part for part in (list_options(listed), remark) if part)

    def _name(self, words: Iterable[str]) -> str:
        named = []
        for word in words:
            columns = self.categories[word]
            more = f" and {len(columns) - 1} more" if len(columns) > 1 else ""
            named.append(f"{quote(word)} of column {show(columns[0])}{more}")
        return ", ".join(named)


def find_words_for_none(
    profiles: Mapping[str, Profile], *, categories: Iterable[str], numbers: Iterable[str]
) -> WordsForNone:
    """Find the words that count as missing.

    Args:
        profiles: Profiles of all columns.
        categories: Names of the columns of categories or classes.
        numbers: Names of the columns of numbers, also of those with some other values.
    """
    found = WordsForNone(list(dict.fromkeys(w for one in profiles.values() for w in _list(one))))
    dates = {name for name in categories if _are_dates(profiles[name])}
    spellings: dict[str, str] = {}
    for name in categories:
        for word, _ in list_frequent(profiles[name]) if name not in dates else ():
            columns = found.categories.setdefault(spellings.setdefault(word.lower(), word), [])
            columns += [name] if name not in columns else []
    found.needed = {word.lower() for name in [*numbers, *dates] for word in _list(profiles[name])}
    return found


def list_frequent(found: Profile, *, is_used: np.ndarray | None = None) -> list[tuple[str, int]]:
    """Return words of a column that count as missing but may be categories, with their rows.

    Args:
        found: Profile of the column.
        is_used: (N,) bool; False for skipped rows. None: all rows are used.
    """
    least = _FREQUENT * found.num_rows
    return [(word, num) for word, num in _count(found, is_used).items() if num >= least]


def list_options(words: Iterable[str]) -> str:
    """Return the options that make words count as missing."""
    return " ".join(f"missing={shlex.quote(show(word))}" for word in words)


def _list(found: Profile) -> list[str]:
    return list(_count(found, None))


def _count(found: Profile, is_used: np.ndarray | None) -> dict[str, int]:
    """Return the words of a column that count as missing, each with the number of its rows."""
    if not found.is_missing.any() or not pa.types.is_string(found.raw.type):
        return {}
    rows = found.is_missing if is_used is None else found.is_missing & is_used
    words = pc.utf8_trim_whitespace(found.raw.filter(pa.array(rows)))
    counts = pc.value_counts(words).to_pylist()
    return {one["values"]: int(one["counts"]) for one in counts if one["values"]}


def _are_dates(found: Profile) -> bool:
    values = found.texts.drop_null().slice(0, _SAMPLE).to_pylist()
    read = [(read_date(one, day_first=True), read_date(one, day_first=False)) for one in values]
    return sum(dates != (None, None) for dates in read) > len(values) / 2
