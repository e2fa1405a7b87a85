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
"""Where a few steps do not take longer than that."""
MIN_STEPS = 3
NUM_CHUNKS = 5
WARM_UP_STEPS = 2
WARM_UP_COST = 3.0
"""What these take, in steps: in the first one each operator is looked at."""


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
    """How many steps the budget allows; 0 when that is too few."""
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
    """Make steps and time them, a chunk at a time; the device is waited for between chunks.

    Args:
        step: makes one.
        num_steps: in all, about.
        synchronize: waits for the device.
        clock: seconds.
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
