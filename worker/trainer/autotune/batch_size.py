"""Decides what batch size `auto` becomes, and the learning rate for it; pure functions."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WITHIN = 0.95
"""Share of the fastest rate that is enough: a larger batch would cost updates for little gain."""
SMALLEST = 8
LARGEST = 1024
BATCHES_AN_EPOCH = 50
"""Least batches per epoch: fewer updates per epoch cost accuracy, however fast they are."""
HEADROOM = 0.7
"""Share of the free memory that a step may take, extrapolated from the smallest batch."""

MOST_DOUBT = 0.02
"""Largest uncertainty considered, so that a batch 7 % slower than the fastest is never chosen. On a
CPU whose single timings differed by 12 %, a larger limit did not make the choice steadier."""
ERROR_OF_A_MEDIAN = (math.pi / 2) ** 0.5
"""Standard error of a median over that of a mean, for many normally distributed values."""

REFERENCE_BATCHES_AN_EPOCH = 100
REFERENCE_SIZES = (8, 128)


@dataclass(frozen=True)
class Speeds:
    """Training speeds of a model.

    Attributes:
        rates: Samples per second by batch size; at least one.
        doubt: Standard error of the ratio of two of the fastest rates; 0 if each was timed once.
    """

    rates: dict[int, float]
    doubt: float = 0.0

    def up_to(self, largest: int) -> "Speeds":
        """Return the speeds of batches up to a size."""
        rates = {size: rate for size, rate in self.rates.items() if size <= largest}
        return Speeds(rates, self.doubt)


def list_candidates(num_train: int, *, bytes_a_sample: int = 0, free_bytes: int = 0) -> list[int]:
    """Return the batch sizes to measure: powers of two from 8 up to what data and memory allow.

    Args:
        num_train: Samples in the training split.
        bytes_a_sample: Memory that a step takes per sample; 0 if unknown.
        free_bytes: Free memory of the device.
    """
    largest = min(LARGEST, max(SMALLEST, num_train // BATCHES_AN_EPOCH))
    if bytes_a_sample:
        largest = min(largest, max(SMALLEST, int(HEADROOM * free_bytes / bytes_a_sample)))
    sizes = []
    size = SMALLEST
    while size <= largest:
        sizes.append(size)
        size *= 2
    return sizes


def compare_turns(turns: Sequence[Mapping[int, float]]) -> Speeds:
    """Combine the timings of several turns, each of which timed every size.

    A machine with other users is slow for seconds at a time, so sizes are compared within a turn,
    and the median over turns counts.


    Args:
        turns: Samples per second by batch size, for the same sizes each; at least one turn.
    """
    means = [statistics.mean(turn.values()) for turn in turns]
    usual = statistics.median(means)
    rates = {
        size: usual
        * statistics.median(turn[size] / mean for turn, mean in zip(turns, means, strict=True))
        for size in turns[0]
    }
    if len(turns) < 2:
        return Speeds(rates)
    fastest = max(rates, key=lambda size: rates[size])
    spread = max(statistics.stdev(turn[size] / turn[fastest] for turn in turns) for size in rates)
    return Speeds(rates, min(MOST_DOUBT, ERROR_OF_A_MEDIAN * spread / len(turns) ** 0.5))


def choose_batch_size(speeds: Speeds) -> int:
    """Return the smallest batch within 5 % of the fastest, allowing for timing uncertainty.

    A size close to the 5 % limit would be chosen by chance on a machine with other users, so the
    uncertainty favours the smaller batch, which makes more updates.
    """
    enough = (WITHIN - speeds.doubt) * max(speeds.rates.values())
    return min(size for size, rate in speeds.rates.items() if rate >= enough)


def spread_over_ranks(batch_size: int, *, num_ranks: int, num_train: int) -> int:
    """Return the batch that several devices share: each device's fast size, if data allow it.

    Args:
        batch_size: Size that is fast on one device.
        num_ranks: Number of devices.
        num_train: Samples in the training split.
    """
    largest = list_candidates(num_train)[-1]
    return max(num_ranks, min(batch_size * num_ranks, largest))


def is_flat(rates: Mapping[int, float]) -> bool:
    """Return whether two doublings in a row gained nothing, so a third would not either."""
    sizes = sorted(rates)
    if len(sizes) < 3:
        return False
    return max(rates[size] for size in sizes[-2:]) < rates[sizes[-3]] / WITHIN


def reference_batch_size(num_train: int) -> int:
    """Return the batch size that the default learning rates are meant for.

    This is the largest power of two with 100 batches per epoch, from 8 to 128.
    """
    smallest, largest = REFERENCE_SIZES
    wanted = max(1, num_train // REFERENCE_BATCHES_AN_EPOCH)
    return max(smallest, min(largest, 1 << (wanted.bit_length() - 1)))


def scale_rate(lr: float, *, batch_size: int, reference: int) -> float:
    """Return the learning rate for another batch size: it grows with the square root.

    Source: Malladi et al., On the SDEs and Scaling Rules for Adaptive Gradient Algorithms,
    arXiv:2205.10287 (Adam); for SGD, where a linear rule is common, this is the cautious choice.
    """
    return float(f"{lr * (batch_size / reference) ** 0.5:.3g}")
