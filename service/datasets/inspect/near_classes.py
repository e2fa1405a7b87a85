"""Which training class a class of the test split may have been meant as."""

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

MAX_HINTS = 10
"""Classes that a near one is looked for: where more are unknown they are no misspellings."""
_MAX_COMPARED = 1000
"""Training classes that each of them is compared with."""


def find_near_classes(unknown: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The nearest known class of each of the first unknown ones; those that have none are absent.

    Args:
        unknown: names, in the order in which they are told.
        known: names of the training classes.
    """
    names = sorted(known)[:_MAX_COMPARED]
    found = {
        name: difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        for name in islice(unknown, MAX_HINTS)
    }
    return {name: near[0] for name, near in found.items() if near}
