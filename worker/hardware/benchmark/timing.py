"""Timing: warmed up, synchronised, and alternating where results are compared."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SAMPLE_SECONDS = 0.02
"""A sample repeats its call until it takes this long, so that the launch and reading the clock take
less than a thousandth of it."""
MAX_REPEATS = 1000
MIN_ROUNDS = 3

Clock = Callable[[], float]


@dataclass(frozen=True)
class Budget:
    """How long a group may take.

    Attributes:
        seconds: No round begins after this time, except for the first MIN_ROUNDS.
        rounds: Most rounds.
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
    """Time each call, one sample in each round; every second round runs in reverse order.

    A call that is so slow that MIN_ROUNDS samples would exceed its share of the time is sampled
    once.

    Args:
        calls: Calls by name, each called once already, so that its kernels are compiled.
        synchronize: Waits until the device has finished its work.
        budget: Limits for all of them together.
        on_round: Called before each sample.
        clock: Returns increasing seconds.
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
    """Return the seconds of one call, as the mean of several in a row."""
    synchronize()
    began = clock()
    for _ in range(repeats):
        call()
    synchronize()
    return (clock() - began) / repeats


def count_repeats(seconds: float) -> int:
    """Return how many calls of this duration make a sample."""
    if seconds <= 0:
        return MAX_REPEATS
    return min(MAX_REPEATS, max(1, math.ceil(SAMPLE_SECONDS / seconds)))
