"""Which batch size `auto` becomes, and the learning rate that goes with it: pure decisions."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WITHIN = 0.95
"""Of the fastest rate: what a larger batch gains beyond that is not worth fewer updates."""
SMALLEST = 8
LARGEST = 1024
BATCHES_AN_EPOCH = 50
"""At least: fewer updates an epoch cost accuracy, however fast they are."""
HEADROOM = 0.7
"""Share of the free memory that a step may take by what it takes at the smallest batch."""

MOST_DOUBT = 0.02
"""However unsteady the machine is: what is 7 % slower than the fastest is never taken. On a CPU
whose single timings differed by 12 %, more chose no more steadily."""
ERROR_OF_A_MEDIAN = (math.pi / 2) ** 0.5
"""Over the error of a mean, of many normal deviates."""

REFERENCE_BATCHES_AN_EPOCH = 100
REFERENCE_SIZES = (8, 128)


@dataclass(frozen=True)
class Speeds:
    """How fast a model trains.

    Attributes:
        rates: samples per second by batch size; at least one.
        doubt: standard error of the ratio of two of the fastest rates; 0 where each was taken once.
    """

    rates: dict[int, float]
    doubt: float = 0.0

    def up_to(self, largest: int) -> "Speeds":
        """Those of the batches that are no larger."""
        rates = {size: rate for size, rate in self.rates.items() if size <= largest}
        return Speeds(rates, self.doubt)


def list_candidates(num_train: int, *, bytes_a_sample: int = 0, free_bytes: int = 0) -> list[int]:
    """The batch sizes to measure: powers of two, from 8 to what data and memory allow.

    Args:
        num_train: samples in the training split.
        bytes_a_sample: that a step takes for each; 0 while it is not known.
        free_bytes: of the device.
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
    """What sizes that were timed by turns say together.

    A machine that others use, too, is slow for seconds at a time: the sizes are compared within a
    turn, and the median of the turns counts.

    Args:
        turns: samples per second by batch size, of the same sizes each time; at least one turn.
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
    """The smallest batch within 5 % of the fastest, as far as they can be told apart.

    What lies on the edge is chosen by chance on a machine that others use, too: the doubt speaks
    for the smaller batch, which makes more updates.
    """
    enough = (WITHIN - speeds.doubt) * max(speeds.rates.values())
    return min(size for size, rate in speeds.rates.items() if rate >= enough)


def spread_over_ranks(batch_size: int, *, num_ranks: int, num_train: int) -> int:
    """The batch that several devices share: for each what one is fast with, as far as data allow.

    Args:
        batch_size: that one device is fast with.
        num_ranks: devices.
        num_train: samples in the training split.
    """
    largest = list_candidates(num_train)[-1]
    return max(num_ranks, min(batch_size * num_ranks, largest))


def is_flat(rates: Mapping[int, float]) -> bool:
    """Whether two doublings in a row have gained nothing: a third one would not either."""
    sizes = sorted(rates)
    if len(sizes) < 3:
        return False
    return max(rates[size] for size in sizes[-2:]) < rates[sizes[-3]] / WITHIN


def reference_batch_size(num_train: int) -> int:
    """The batch that the default learning rates are meant for.

    The largest power of two that makes 100 batches an epoch, from 8 to 128.
    """
    smallest, largest = REFERENCE_SIZES
    wanted = max(1, num_train // REFERENCE_BATCHES_AN_EPOCH)
    return max(smallest, min(largest, 1 << (wanted.bit_length() - 1)))


def scale_rate(lr: float, *, batch_size: int, reference: int) -> float:
    """The learning rate for another batch: it goes with the square root of the batch.

    Source: Malladi et al., On the SDEs and Scaling Rules for Adaptive Gradient Algorithms,
    arXiv:2205.10287 (Adam); for SGD, where a linear rule is common, it is the careful choice.
    """
    return float(f"{lr * (batch_size / reference) ** 0.5:.3g}")
