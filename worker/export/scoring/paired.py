"""Judges which of two models is better on the same samples, and whether chance may explain it.

Shapes: N samples, B swaps.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Judgement
from worker.export.scoring.intervals import CHUNK, FEWEST_RESAMPLES, MOST_WORK, RESAMPLES, Weights

LEVEL = 0.05
"""Share of equally good models that a test may call different."""
ROUNDING = 1e-12
"""Part of a difference by which equal ones may differ."""


def judge_right(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> Judgement:
    """Judge two models by which samples each answers right (N,), by McNemar's exact test.

    Only samples that one of them alone answers right say anything. If both are equally good, each
    of the two is that one with a probability of a half.

    Source: McNemar (1947), Note on the sampling error of the difference between correlated
    proportions.
    """
    from scipy.special import bdtr

    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    chance = min(1.0, 2 * float(bdtr(min(won, lost), won + lost, 0.5)))
    return _judge(won - lost, chance)


def judge_swapped(
    metric: Callable[[Weights], NDArray[np.float64]],
    num: int,
    *,
    is_error: bool = False,
    parts: int = 1,
) -> Judgement | None:
    """Judge two models by a metric whose models are swapped on random samples.

    If both are equally good, swapping their answers to a sample changes nothing. So the difference
    is compared with those after random swaps. For the accuracy this is McNemar's test; a bootstrap
    of the difference is too sure with few samples.

    Source: Yeh (2000), More accurate tests for the statistical significance of result differences.
    With 26 rows, it called 4 to 5 % of 1,000 pairs of equally good models different by their RMSE,
    a bootstrap 7 to 10 %; with 10 rows 4 to 5 % and 11 to 14 % (numpy, 2026-11-29).

    Args:
        metric: Computes the metric (B,) of the outputs of our model, followed by those of the other
            model, for the same samples, with weights (B, 2 N).
        num: N.
        is_error: Whether lower values are better.
        parts: Times that the metric reads each weight, as once for each class.

    Returns:
        The verdict; None if so many samples would take too long, or if the metric is undefined.
    """
    swaps = min(RESAMPLES, MOST_WORK // (2 * num * parts))
    if swaps < FEWEST_RESAMPLES:
        return None
    (own,) = _subtract(metric, np.ones((1, num)))
    if not np.isfinite(own):
        return None
    found = np.concatenate([_subtract(metric, kept) for kept in _swap(num, swaps)])
    found = np.abs(found[np.isfinite(found)])
    num_larger = int((found >= abs(own) * (1 - ROUNDING)).sum())
    return _judge(-own if is_error else own, (1 + num_larger) / (1 + len(found)))


def _judge(difference: float, chance: float) -> Judgement:
    if chance > LEVEL:
        return "equal"
    return "better" if difference > 0 else "worse"


def _subtract(
    metric: Callable[[Weights], NDArray[np.float64]], kept: Weights
) -> NDArray[np.float64]:
    """Return the metric of our model minus that of the other, (B,).

    Args:
        metric: See `judge_swapped`.
        kept: (B, N) 1 where each model keeps its answer, 0 where it gets that of the other.
    """
    swapped = 1 - kept
    ours, theirs = np.hstack([kept, swapped]), np.hstack([swapped, kept])
    found: NDArray[np.float64] = metric(ours) - metric(theirs)
    return found


def _swap(num: int, swaps: int) -> Iterator[Weights]:
    """Yield which samples keep their answers, in parts that fit in memory."""
    generator = np.random.default_rng(0)
    each = max(1, CHUNK // (2 * num))
    for start in range(0, swaps, each):
        size = min(each, swaps - start)
        yield generator.integers(2, size=(size, num)).astype(np.float64)


def stack(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
    """Return the outputs, or the targets, of two models for the same samples as one array."""
    return np.concatenate([ours, theirs])
