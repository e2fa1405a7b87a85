"""The bare step: forward pass, backward pass and update on one resident batch, and nothing else.

Its speed shows what a training loses to data, bookkeeping and host. It is measured after the last
step, on the job's own model, whose weights are no longer needed.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

COST_RATIO = 0.01
"""Largest share of the training time that measuring may take."""
MAX_SECONDS = 2.0
"""Longest time for measuring, unless a few steps take longer."""
MIN_STEPS = 3
NUM_CHUNKS = 5
WARM_UP_STEPS = 2
WARM_UP_COST = 3.0
"""Time of the warm-up in steps: the first one records each operator."""


@dataclass(frozen=True)
class BareStep:
    """A measurement.

    Attributes:
        seconds: Time of one step: the median of several chunks' means.
        num_steps: Number of steps measured.
        flops: Floating-point operations of one step; None if they could not be counted.
    """

    seconds: float
    num_steps: int
    flops: int | None


def plan_steps(*, step_seconds: float, training_seconds: float) -> int:
    """Return how many steps the budget allows; 0 if that is too few."""
    num = int(COST_RATIO * training_seconds / step_seconds - WARM_UP_COST)
    if num < MIN_STEPS:
        return 0
    return min(num, max(MIN_STEPS, int(MAX_SECONDS / step_seconds)))


def measure(
    step: Callable[[], object],
    *,
    num_steps: int,
    synchronize: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> BareStep:
    """Run steps and time them in chunks, waiting for the device between chunks.

    Args:
        step: Runs one step.
        num_steps: Approximate number of steps.
        synchronize: Waits for the device.
        clock: Returns seconds.
    """
    flops = count_flops(step)
    for _ in range(WARM_UP_STEPS - 1):
        step()
    chunks = min(NUM_CHUNKS, num_steps)
    each = num_steps // chunks
    means = []
    for _ in range(chunks):
        synchronize()
        began = clock()
        for _ in range(each):
            step()
        synchronize()
        means.append((clock() - began) / each)
    return BareStep(statistics.median(means), chunks * each, flops)


def count_flops(step: Callable[[], object]) -> int | None:
    """Count the multiplications and additions of one step's matrix products and convolutions.

    Returns:
        None if the operators cannot be recorded, as in a compiled graph.
    """
    try:
        with FlopCounterMode(display=False) as counter:
            step()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return None
    return int(counter.get_total_flops()) or None
