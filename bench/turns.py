"""Several ways to do the same by turns, so that whatever else the machine does hits all of them."""

import statistics
from collections.abc import Callable, Mapping

from bench.result import spread

TURNS = 15
WARM_UP = 10

Chunks = Callable[[int], float]
"""Makes so many steps and returns the seconds that they took."""


def alternate(ways: Mapping[str, Chunks], *, steps: Mapping[str, int]) -> dict[str, list[float]]:
    """Seconds of all ways' chunks, taken in turns; who goes first changes from turn to turn."""
    for name, way in ways.items():
        way(min(WARM_UP, steps[name]))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for name in list(ways) if turn % 2 else reversed(list(ways)):
            seconds[name].append(ways[name](steps[name]))
    return seconds


def compare(theirs: list[float], ours: list[float]) -> tuple[float, str]:
    """The median of the neighbours' ratios, and their spread.

    Neighbours had the same machine: one that slows down between the turns moves both.
    """
    pairs = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(pairs), spread(pairs)
