"""Timing: warmed, synchronised, and by turns where things are compared."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SAMPLE_SECONDS = 0.02
"""A sample repeats its call until it takes so long: a launch, and a look at the clock, are then
below a thousandth of it."""
MAX_REPEATS = 1000
MIN_ROUNDS = 3

Clock = Callable[[], float]


@dataclass(frozen=True)
class Budget:
    """How long a group may take.

    Attributes:
        seconds: no round begins after them, but for the first MIN_ROUNDS.
        rounds: at most.
    """

    seconds: float
    rounds: int


def time_by_turns(
    calls: Mapping[str, Callable[[], object]],
    *,
    synchronize: Callable[[], None],
    budget: Budget,
    on_round: Callable[[], None] = lambda: None,
    clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each call, one sample a round; every other round goes backwards.

    A call so slow that MIN_ROUNDS of it would use up its part of the time is sampled once.

    Args:
        calls: by name, each called once before, so that its kernels are compiled.
        synchronize: waits until the device has done what it was given.
        budget: for all of them together.
        on_round: called before each sample.
        clock: seconds that rise.
    """
    began = clock()
    samples: dict[str, list[float]] = {}
    repeats: dict[str, int] = {}
    for name, call in calls.items():
        on_round()
        seconds = time_once(call, 1, synchronize=synchronize, clock=clock)
        is_slow = seconds * MIN_ROUNDS > budget.seconds / len(calls)
        samples[name] = [seconds] if is_slow else []
        if not is_slow:
            repeats[name] = count_repeats(seconds)
    for number in range(budget.rounds):
        if number >= MIN_ROUNDS and clock() - began > budget.seconds:
            break
        order = list(repeats) if number % 2 == 0 else list(reversed(repeats))
        for name in order:
            on_round()
            seconds = time_once(calls[name], repeats[name], synchronize=synchronize, clock=clock)
            samples[name].append(seconds)
    return samples


def time_once(
    call: Callable[[], object],
    repeats: int,
    *,
    synchronize: Callable[[], None],
    clock: Clock = time.perf_counter,
) -> float:
    """Seconds of one call, as the mean of some in a row."""
    synchronize()
    began = clock()
    for _ in range(repeats):
        call()
    synchronize()
    return (clock() - began) / repeats


def count_repeats(seconds: float) -> int:
    """How many calls of so many seconds make a sample."""
    if seconds <= 0:
        return MAX_REPEATS
    return min(MAX_REPEATS, max(1, math.ceil(SAMPLE_SECONDS / seconds)))
