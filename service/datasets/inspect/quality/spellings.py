"""Warns of names that are probably one: they differ only in case and blanks."""

from collections.abc import Iterable, Sequence

from redkiln.tables import Column
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote, show

SHOWN = 5
"""Groups of names that the warning lists."""


def check_spellings(classes: Iterable[str], columns: Sequence[Column] = ()) -> list[DatasetProblem]:
    """Return a warning about classes, and categories of a column, that differ only in spelling."""
    found = [f"classes {names}" for names in _find_spellings(classes)]
    for column in columns:
        groups = _find_spellings(column.categories)
        found += [f"column {show(column.name)}: {names}" for names in groups]
    if not found:
        return []
    shown = "; ".join(found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    message = (
        f"names that differ only in upper and lower case or in blanks count as different ({shown}"
        f"{more}); if they mean the same, write them in the same way and push the data again"
    )
    return [problem("spellings", message)]


def _find_spellings(names: Iterable[str]) -> list[str]:
    """Return each group of names that differ only in case and blanks, listed as text."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    # Single letters may be separate classes, as in pictures of handwriting.
    return [_list(group) for key, group in groups.items() if len(group) > 1 < len(key)]


def _list(names: list[str]) -> str:
    return ", ".join(quote(name) for name in names[:SHOWN])
