"""Finds classes that are probably a far larger class with a typing mistake in its name."""

import re
from collections.abc import Mapping

MANY_TIMES = 20
"""How often a class must have the samples of another one that may be its misspelling."""
MOST_COMPARED = 500
"""Classes of which each is compared with each other one."""
SHORTEST = 5
"""Letters of a word whose difference by one letter may be a mistake: `low` and `slow` are words."""
SHORTEST_REPLACED = 7
"""The same, if one letter replaces another one, as in `horse` and `house`."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


def find_misspellings(totals: Mapping[str, int]) -> dict[str, str]:
    """Return the far larger class that each small one may be a misspelling of.

    Args:
        totals: Samples by class.
    """
    if len(totals) > MOST_COMPARED:
        return {}
    found = {}
    by_size = sorted(totals, key=lambda name: -totals[name])
    for name, num in totals.items():
        larger = (other for other in by_size if totals[other] >= MANY_TIMES * num)
        likely = next((other for other in larger if is_one_mistake(name, other)), None)
        if likely is not None:
            found[name] = likely
    return found


def is_one_mistake(name: str, other: str) -> bool:
    """Return whether one typing mistake in one word makes a name of another one.

    Numbers and short words tell classes apart, as in `stage_i` and `stage_ii`. So do first letters,
    as in `typical` and `atypical`, and last ones, as in `trainee` and `trainer`.
    """
    if _NO_LETTERS.findall(name) != _NO_LETTERS.findall(other):
        return False
    words = zip(*(_NO_LETTERS.split(one.casefold()) for one in (name, other)), strict=True)
    differ = [pair for pair in words if pair[0] != pair[1]]
    return len(differ) == 1 and _is_mistyped(*differ[0])


def _is_mistyped(word: str, other: str) -> bool:
    """Return whether a letter is missing, added, replaced, or exchanged with the next one."""
    shortest = min(len(word), len(other))
    start = _count_equal(word, other)
    if not start or shortest < SHORTEST:
        return False
    word, other = word[start:], other[start:]
    end = _count_equal(word[::-1], other[::-1])
    one, two = word[: len(word) - end], other[: len(other) - end]
    if {len(one), len(two)} == {0, 1}:
        return True
    if len(one) == len(two) == 1:
        return shortest >= SHORTEST_REPLACED and end > 0
    return len(one) == len(two) == 2 and one == two[::-1]


def _count_equal(word: str, other: str) -> int:
    """Return how many first letters two words share."""
    pairs = enumerate(zip(word, other, strict=False))
    return next((place for place, (one, two) in pairs if one != two), min(len(word), len(other)))
