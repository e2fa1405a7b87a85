"""Refuses columns of mostly numbers that also have other values."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.value_types.unread import (
    SHOWN,
    advise,
    find_unread_form,
    join_kinds,
    list_kinds,
    quote_uses,
)
from service.datasets.inspect.tables.value_types.words_for_none import WordsForNone

MAX_WORDS_FOR_NONE = 3
"""Up to this many different words among numbers may each mean a missing value."""
MAX_ROWS_FOR_WORDS = 1000
_DECIMAL_COMMA = r"^[+-]?\d+,(\d{1,2}|\d{4,})$"
"""A number whose comma cannot separate thousands."""


def refuse_mixed(
    columns: Sequence[Profile], *, locate: Callable[[int], str], words_for_none: WordsForNone
) -> list[DatasetProblem]:
    """Return a problem for columns that need the same remedy.

    Args:
        columns: Columns of which most values are numbers, but too many are not.
        locate: Function that returns the place of the row with an index.
        words_for_none: Words that mean a missing value already.
    """
    by_remedy: dict[str, list[Profile]] = {}
    for found in columns:
        form = find_unread_form(found.texts)
        remedy = "" if form is None else f"it has {advise(form)}; or "
        remedy = _advise_points(found) or remedy
        by_remedy.setdefault(remedy, []).append(found)
    return [
        problem(
            "mixed_types",
            f"{_describe(alike)}; {remedy}{_advise(alike, words_for_none)}",
            locate(int(alike[0].is_not_number.nonzero()[0][0])),
        )
        for remedy, alike in by_remedy.items()
    ]


def _advise_points(found: Profile) -> str:
    """Return how to write numbers with decimal commas, if these are all that is wrong."""
    wrong = found.texts.filter(pa.array(found.is_not_number)).drop_null()
    if not pc.all(pc.match_substring_regex(wrong, _DECIMAL_COMMA)).as_py():
        return ""
    first = wrong[0].as_py()
    values = "1 value" if len(wrong) == 1 else f"{len(wrong)} values"
    return f"write {first.replace(',', '.')} instead of {first} ({values}); or "


def _describe(columns: Sequence[Profile]) -> str:
    if len(columns) == 1:
        (found,) = columns
        num_wrong = int(found.is_not_number.sum())
        return (
            f"column {quote(found.name)} mixes types: {found.num_present - num_wrong} values are "
            f"numbers and {num_wrong} are not ({_show_words(found)})"
        )
    shown = ", ".join(
        f"{int(found.is_not_number.sum())} of {found.num_present} values of {quote(found.name)} "
        f"({_show_words(found)})"
        for found in columns[:SHOWN]
    )
    more = f" and {len(columns) - SHOWN} more columns" if len(columns) > SHOWN else ""
    return f"{len(columns)} columns mix types; these are not numbers: {shown}{more}"


def _show_words(found: Profile) -> str:
    """Return all kinds of values that are not numbers, so that they can be mended at once."""
    wrong = found.texts.filter(pa.array(found.is_not_number)).drop_null()
    kinds = list_kinds(wrong)
    return join_kinds(kinds) if len(kinds) > 1 else f"the first is {_list_words(found)[0]!r}"


def _advise(columns: Sequence[Profile], words_for_none: WordsForNone) -> str:
    names = [found.name for found in columns]
    words = [_list_words(found) for found in columns]
    remedy = "leave these fields empty"
    if max(map(len, words)) <= MAX_WORDS_FOR_NONE and not any(map(_advise_points, columns)):
        options = words_for_none.advise(word for some in words for word in some)
        remedy += f", list all words that mean a missing value ({options})"
    return f"{remedy}, or set {quote_uses(names, 'categorical')} or {quote_uses(names, 'ignored')}"


def _list_words(found: Profile) -> list[str]:
    """Return the different values that are not numbers, as the file has them."""
    wrong = found.is_not_number.nonzero()[0]
    return list({found.example(int(row)): None for row in wrong[:MAX_ROWS_FOR_WORDS]})
