"""The bare step: forward, backward and update on one batch that lies ready, and nothing else.

What a training reaches of it is what its data, its bookkeeping and its host leave. It is measured
behind the last step, on the job's own model: nothing depends on its weights any more.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

COST_RATIO = 0.01
"""Share of the training that measuring may take."""
MAX_SECONDS = 2.0
MIN_STEPS = 5
NUM_CHUNKS = 5
WARM_UP_STEPS = 2
COUNTING_STEPS = 2.0
"""What counting operations takes, in steps: one in which each operator is looked at."""


@dataclass(frozen=True)
class BareStep:
    """What was measured.

    Attributes:
        seconds: of one step, the median of some chunks' means.
        num_steps: that were made.
        flops: floating-point operations of one step; None when they could not be counted.
    """

    seconds: float
    num_steps: int
    flops: int | None


def plan_steps(*, step_seconds: float, training_seconds: float) -> int:
    """How many steps the budget allows, a multiple of the chunks; 0 when that is too few."""
    budget_seconds = min(MAX_SECONDS, COST_RATIO * training_seconds)
    num = int(budget_seconds / step_seconds - WARM_UP_STEPS - COUNTING_STEPS)
    return 0 if num < MIN_STEPS else num - num % NUM_CHUNKS


def measure(
    step: Callable[[], object],
    *,
    num_steps: int,
    synchronize: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> BareStep:
    """Make steps and time them, a chunk at a time; the device is waited for between chunks.

    Args:
        step: makes one.
        num_steps: in all, a multiple of NUM_CHUNKS.
        synchronize: waits for the device.
        clock: seconds.
    """
    for _ in range(WARM_UP_STEPS):
        step()
    means = []
    for _ in range(NUM_CHUNKS):
        synchronize()
        began = clock()
        for _ in range(num_steps // NUM_CHUNKS):
            step()
        synchronize()
        means.append((clock() - began) / (num_steps // NUM_CHUNKS))
    return BareStep(statistics.median(means), num_steps, count_flops(step))


def count_flops(step: Callable[[], object]) -> int | None:
    """Multiplications and additions of one step, those of matrix products and convolutions.

    Returns:
        None when the operators cannot be looked at, as in a compiled graph.
    """
    try:
        with FlopCounterMode(display=False) as counter:
            step()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return None
    return int(counter.get_total_flops()) or None
