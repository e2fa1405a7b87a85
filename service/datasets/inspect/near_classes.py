"""Suggests training classes for unknown classes of the test split."""

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

MAX_HINTS = 10
"""Maximum classes to find suggestions for; a longer list is not a list of misspellings."""
_MAX_COMPARED = 1000
"""Maximum training classes to compare each of them with."""


def find_near_classes(
    unknown: Iterable[str], known: Collection[str], *, cutoff: float = 0.6
) -> dict[str, str]:
    """Return the nearest known class of each of the first unknown ones that has one.

    Args:
        unknown: Names of unknown classes, in the order of the messages.
        known: Names of the training classes.
        cutoff: Smallest similarity, from 0 to 1.
    """
    names = sorted(known)[:_MAX_COMPARED]
    found = {
        name: difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
        for name in islice(unknown, MAX_HINTS)
    }
    return {name: near[0] for name, near in found.items() if near}
