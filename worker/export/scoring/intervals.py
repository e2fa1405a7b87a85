"""95 % confidence intervals of metrics on a test split.

Shapes: N samples, B resamples.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import Z
from redkiln.views.comparison import Interval

RESAMPLES = 500
FEWEST_RESAMPLES = 100
MOST_WORK = 20_000_000
"""Samples times resamples, which bounds the time of a bootstrap to about a second."""
NUM_AREAS = 100_001
"""Areas that are tried for the ends of an interval."""
CHUNK = 2_000_000
"""Weights in memory at once."""
USUAL_SAMPLES = 10
SMALLEST_ERROR = 0.7
"""Part of the standard error that a resample's own may not fall below: those of very few samples
are sometimes almost equal."""
MOST_ERRORS = 2.6
"""Most standard errors that an end is away from the value. Without it, one large error among few
moves the other end far away. Source: bench/results/2026-11-28-intervals.md."""

Weights = NDArray[np.float64]
"""(B, N), how often each sample is in each resample."""
Logs = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The logarithm (B,) of a metric of weighted samples, and how much each of the samples changes it
(B, N): its influence, whose weighted mean is 0."""


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
    values = np.concatenate([metric(weights) for weights in _resample(num, resamples)])
    values = values[np.isfinite(values)]
    if len(values) < FEWEST_RESAMPLES:
        return None
    low, high = np.quantile(values, (0.025, 0.975))
    return (float(low), float(high)) if low < high else None


def bootstrap_t(logs: Callable[[Weights], Logs], num: int, *, usual: float) -> Interval | None:
    """Return the bootstrap-t interval of a metric's logarithm, for few samples.

    A percentile bootstrap of few errors is too sure, because the largest errors of all rows are
    often not among them. Here the distance of each resample is measured in that resample's standard
    error. The standard error of the samples is averaged with 10 samples of usual errors.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 12.5; the
    additional samples were measured in bench/results/2026-11-28-intervals.md.

    Args:
        logs: Computes the logarithm and the influences.
        num: N.
        usual: Variance of the influences of usual errors, such as those with Laplace's
            distribution.

    Returns:
        The interval of the logarithm; None if it is not defined, as for a perfect model.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        (own,), influences = logs(np.ones((1, num)))
        squares = float((influences**2).sum())
        error = ((squares + USUAL_SAMPLES * usual) / (num + USUAL_SAMPLES) / num) ** 0.5
        values = np.concatenate(
            [_count_errors(*logs(weights), weights, own, error)
             for weights in _resample(num, RESAMPLES)]
        )  # fmt: skip
    values = values[np.isfinite(values)]
    if len(values) < FEWEST_RESAMPLES:
        return None
    low, high = np.quantile(values, (0.025, 0.975)).clip(-MOST_ERRORS, MOST_ERRORS)
    return float(own - max(0.0, high) * error), float(own - min(0.0, low) * error)


def _count_errors(
    values: NDArray[np.float64],
    influences: NDArray[np.float64],
    weights: Weights,
    own: float,
    error: float,
) -> NDArray[np.float64]:
    """Return how many of their standard errors resamples are above the samples, (B,)."""
    num = weights.shape[1]
    squares = (weights * influences**2).sum(axis=1)
    errors = np.sqrt(squares / num / max(1, num - 1))
    counted: NDArray[np.float64] = (values - own) / np.maximum(errors, SMALLEST_ERROR * error)
    return counted


def newcombe(area: float, num_first: int, num_second: int) -> Interval:
    """Return the 95 % interval of an area under the ROC curve, also from very few samples.

    It has all areas whose standard error allows the measured one, as Wilson's interval of a share.

    Args:
        area: The measured area.
        num_first: Samples of one class, at least 1.
        num_second: Samples of the other class, at least 1.

    Source: Newcombe (2006), Confidence intervals for an effect size measure based on the
    Mann-Whitney statistic, part 2, method 5, with the variance of Hanley and McNeil (1982). In 400
    simulated test splits of 3 and 300 samples with normal scores and areas of 0.75 to 0.97, it held
    the true area in 92 to 97 %, a bootstrap in 58 to 76 %; if some of the 3 cannot be distinguished
    from the 300, in 87 to 89 % (numpy, 2026-11-28).
    """
    areas = np.linspace(0, 1, NUM_AREAS)
    pairs, others = num_first * num_second, (num_first + num_second) / 2 - 1
    spread = 1 + others * ((1 - areas) / (2 - areas) + areas / (1 + areas))
    errors = np.sqrt(areas * (1 - areas) * spread / pairs)
    # The measured area itself is always inside, even if it is 0 or 1 and between two of the areas.
    inside = areas[np.abs(areas - area) <= Z * errors]
    return min(area, float(inside.min())), max(area, float(inside.max()))


def _resample(num: int, resamples: int) -> Iterator[Weights]:
    """Yield all resamples of N samples, in parts that fit in memory."""
    generator = np.random.default_rng(0)
    for size in _chunks(resamples, each=max(1, CHUNK // num)):
        places = generator.integers(num, size=(size, num)) + num * np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=size * num)
        yield counts.reshape(size, num).astype(np.float64)


def _chunks(total: int, *, each: int) -> list[int]:
    return [min(each, total - start) for start in range(0, total, each)]
