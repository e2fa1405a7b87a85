"""95 % confidence intervals of metrics on a test split.

Shapes: N samples, B resamples, C classes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Interval

RESAMPLES = 500
FEWEST_RESAMPLES = 100
MOST_WORK = 20_000_000
"""Samples times resamples, which bounds the time of a bootstrap to about a second."""
CHUNK = 2_000_000
"""Weights in memory at once."""

Weights = NDArray[np.float64]
"""(B, N), how often each sample is in each resample."""


def average(values: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return the mean of values (N,) in each resample, (B,)."""
    means: NDArray[np.float64] = weights @ values / weights.sum(axis=1)
    return means


def bootstrap(
    metric: Callable[[Weights], NDArray[np.float64]], num: int, *, parts: int = 1
) -> Interval | None:
    """Return the percentile interval of a metric over resamples of the samples.

    Args:
        metric: Computes the metric (B,) of weighted samples.
        num: N.
        parts: Times that the metric reads each weight, as once for each class.

    Returns:
        The interval; None if so many samples would take too long, if the metric is undefined, or
        if all resamples agree, as those of a perfect model: they then know nothing of other
        samples.
    """
    resamples = min(RESAMPLES, MOST_WORK // (num * parts))
    if resamples < FEWEST_RESAMPLES:
        return None
    generator = np.random.default_rng(0)
    found = []
    for size in _chunks(resamples, each=max(1, CHUNK // num)):
        places = generator.integers(num, size=(size, num)) + num * np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=size * num)
        found.append(metric(counts.reshape(size, num).astype(np.float64)))
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    if len(values) < FEWEST_RESAMPLES:
        return None
    low, high = np.quantile(values, (0.025, 0.975))
    return (float(low), float(high)) if low < high else None


def _chunks(total: int, *, each: int) -> list[int]:
    return [min(each, total - start) for start in range(0, total, each)]
