"""Finds the nearest known name, for messages about unknown names."""

import difflib
from collections.abc import Collection, Iterable

MEANT = {
    "xgboost": "gradient-boosting",
    "lightgbm": "gradient-boosting",
    "catboost": "gradient-boosting",
    "histgradientboosting": "gradient-boosting",
}
"""Names of other libraries' models, and the one that replaces them here."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest known name, or all of them."""
    names = list(known)
    return find_nearest(name, names) or (f"; known: {', '.join(names)}" if names else "")


def find_nearest(name: str, known: Collection[str], *, least: float = 0.5) -> str:
    """Return the end of a message if a known name is near, else an empty string.

    Args:
        name: The unknown name.
        known: Names that it may mean.
        least: Likeness from which a name is near, from 0 to 1.
    """
    meant = MEANT.get(name.lower())
    if meant in known:
        return f"; did you mean {meant!r}?"
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=least)
    return f"; did you mean {near[0]!r}?" if near else ""
