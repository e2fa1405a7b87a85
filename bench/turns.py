"""Several ways to do the same by turns, so that whatever else the machine does hits all of them."""

import statistics
from collections.abc import Callable, Mapping

from bench.result import spread

TURNS = 15
WARM_UP = 10

Chunks = Callable[[int], float]
"""Makes so many steps and returns the seconds that they took."""


def alternate(
    ways: Mapping[str, Chunks], *, steps: Mapping[str, int], pieces: int = 1
) -> dict[str, list[float]]:
    """Seconds of all ways' chunks, taken in turns; who goes first changes from turn to turn.

    Args:
        ways: to be held against each other.
        steps: of a chunk of each.
        pieces: that a chunk is made in, where the ways take turns within it too: a machine that
            others use, too, changes its speed within seconds.
    """
    for name, way in ways.items():
        way(min(WARM_UP, steps[name]))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for _ in range(TURNS):
        spent = dict.fromkeys(ways, 0.0)
        for piece in range(pieces):
            order.reverse()
            for name in order:
                num = _share(steps[name], piece, pieces)
                spent[name] += ways[name](num) if num else 0.0
        for name, value in spent.items():
            seconds[name].append(value)
    return seconds


def _share(steps: int, piece: int, pieces: int) -> int:
    return steps * (piece + 1) // pieces - steps * piece // pieces


def compare(theirs: list[float], ours: list[float]) -> tuple[float, str]:
    """The median of the neighbours' ratios, and their spread.

    Neighbours had the same machine: one that slows down between the turns moves both.
    """
    pairs = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(pairs), spread(pairs)
