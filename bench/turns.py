"""Alternating measurements, so that other load on the machine affects all of them equally."""

import statistics
from collections.abc import Callable, Mapping

from bench.result import spread

TURNS = 15
WARM_UP = 10

Chunks = Callable[[int], float]
"""Makes the given number of steps and returns the seconds that they took."""


def alternate(
    ways: Mapping[str, Chunks], *, steps: Mapping[str, int], pieces: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each way's chunks, measured alternately in a changing order.

    Args:
        ways: The ways to compare, by name.
        steps: Steps of one chunk of each way.
        pieces: Pieces of a chunk between which the ways alternate, because a shared machine
            changes its speed within seconds.
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
    """Return the median of the ratios of neighbouring chunks, and their spread.

    A machine that slows down between two turns slows both neighbours.
    """
    pairs = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(pairs), spread(pairs)
