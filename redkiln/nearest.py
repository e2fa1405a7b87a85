"""The nearest known name, for messages about an unknown one."""

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """How a message about an unknown name ends: the nearest known one, else all of them."""
    names = list(known)
    return find_nearest(name, names) or (f"; known: {', '.join(names)}" if names else "")


def find_nearest(name: str, known: Iterable[str]) -> str:
    """How a message ends where a known name is near; else nothing."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
