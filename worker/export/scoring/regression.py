"""Scores the outputs of a regressor, for any task whose model returns one value per sample."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.card import figures
from worker.export.card.markdown import escape, number
from worker.export.scoring.intervals import Logs, Weights, average, bootstrap, bootstrap_t
from worker.export.scoring.paired import judge_swapped, stack
from worker.export.target import CurveStyle, Outputs, ReadSplit

QUANTILES = (0.5, 0.9, 0.99)
MANY = 1000
"""Test samples from which a percentile bootstrap, which is faster, holds as often."""
FEW = 100
"""Test samples below which errors with long tails make the intervals too narrow.
Source: bench/results/2026-11-28-intervals.md."""
FEW_ROWS = (
    "The test split has only {num} {noun}. If a few {noun} have much larger errors than the "
    "others, the intervals above may be too narrow.\n\n"
)


def rmse(outputs: Outputs, targets: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return root mean square errors (B,) of samples weighted by (B, N)."""
    squares: NDArray[np.float64] = (outputs.astype(np.float64) - targets) ** 2
    return np.sqrt(average(squares, weights))


def mae(outputs: Outputs, targets: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return mean absolute errors (B,) of samples weighted by (B, N)."""
    return average(np.abs(outputs.astype(np.float64) - targets), weights)


def r2(outputs: Outputs, targets: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return explained shares (B,) of the variance of samples weighted by (B, N); 0 without any."""
    shares = weights / weights.sum(axis=1, keepdims=True)
    squares = shares @ (outputs.astype(np.float64) - targets) ** 2
    means = shares @ targets
    # From the mean of all: the difference of two large squares would lose its digits.
    middle = targets.mean()
    spread = shares @ (targets - middle) ** 2 - (means - middle) ** 2
    is_spread = spread > 1e-12 * (shares @ targets**2)
    return np.where(is_spread, 1 - squares / np.where(is_spread, spread, 1), 0.0)


USUAL = {"rmse": 5.0, "mae": 1.0, "r2": 7.0}
"""Variances of the influences that a metric's logarithm is computed from, if errors have Laplace's
distribution, and targets a normal one."""

METRICS: dict[str, Callable[[Outputs, NDArray[np.float64], Weights], NDArray[np.float64]]] = {
    "rmse": rmse,
    "mae": mae,
    "r2": r2,
}


class Regression:
    """A `worker.export.target.Scoring` of values (N,) and targets (N,), both in the target's unit.

    Args:
        target: Name of the target column.
        mean: Mean of the training targets.
        std: Standard deviation of the training targets.
    """

    headline = "rmse"
    targets_name = "targets"
    curve = CurveStyle("val/rmse", "root mean square error", is_share=False)
    figure = "predictions.png"
    is_error = True

    def __init__(self, target: str, *, mean: float, std: float) -> None:
        self._target = target
        self._mean = mean
        self._std = std

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return errors in the target's unit, and the explained share of its variance."""
        once = np.ones((1, len(targets)))
        wanted = targets.astype(np.float64)
        return {name: float(metric(outputs, wanted, once)[0]) for name, metric in METRICS.items()}

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return bootstrap intervals."""
        wanted = targets.astype(np.float64)
        found = {name: _find_interval(name, outputs, wanted) for name in METRICS}
        return {name: interval for name, interval in found.items() if interval is not None}

    def choose_compared(self, targets: NDArray[Any]) -> str:  # noqa: ARG002
        """Return the root mean square error."""
        return self.headline

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the mean of the training targets."""
        return "mean", np.full(num, targets.mean(), dtype=np.float32)

    def compare_pair(
        self, metric: str, ours: Outputs, theirs: Outputs, targets: NDArray[Any]
    ) -> Judgement | None:
        """Return the verdict of random swaps.

        A large error, which widens the interval of the RMSE, does not hide that all others are
        smaller.
        """
        wanted = targets.astype(np.float64)
        both = partial(METRICS[metric], stack(ours, theirs), stack(wanted, wanted))
        return judge_swapped(both, len(targets), is_error=True)

    def choose_threshold(
        self,
        read: ReadSplit,  # noqa: ARG002 - values have no threshold
    ) -> ThresholdChoice | None:
        """Return None, because values have no threshold."""
        return None

    def find_drop(self, value: float, onnx: float) -> float:
        """Return the relative growth of the error; rounding in an exact model does not count."""
        return (onnx - value) / max(value, 1e-6 * self._std)

    def explain_drop(self, drop: float) -> str:
        """Describe the growth of the error."""
        return f"the metric (rmse) is {drop:.2%} worse"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:  # noqa: ARG002
        """Return None, because values rarely agree to the last bit."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return the target."""
        return {"target": {"name": self._target, "mean": self._mean, "std": self._std}}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Draw predicted against true values."""
        metrics = self.score(outputs, targets)
        figures.draw_predictions(
            outputs,
            targets,
            path,
            title=f"{title}: test RMSE {number(metrics['rmse'])}, R² {metrics['r2']:.3f}",
            target=self._target,
        )

    def describe_headline(
        self,
        metrics: Mapping[str, float],
        *,
        compared: str,  # noqa: ARG002 - always the same
    ) -> str:
        """Return the error and the explained share as text."""
        return (
            f"Test root mean square error **{number(metrics['test/rmse'])}** (mean absolute "
            f"error {number(metrics['test/mae'])}, R² {metrics['test/r2']:.3f})"
        )

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the sizes of errors."""
        error = np.abs(outputs.astype(np.float64) - targets)
        few = FEW_ROWS.format(noun=noun, num=len(targets)) if len(targets) < FEW else ""
        rows = "\n".join(
            f"| {share:.0%} of the test {noun} are within | {number(np.quantile(error, share))} |"
            for share in QUANTILES
        )
        return (
            f"{few}| | error |\n|---|---|\n{rows}\n| largest | {number(error.max())} |\n\n"
            f"![curves](curves.png)\n\n![predictions]({self.figure})"
        )

    def describe_output(self) -> str:
        """Return the target and its distribution as text."""
        return (
            f"Target: {escape(self._target)}, mean {number(self._mean)}, standard deviation "
            f"{number(self._std)} in the training split"
        )

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "relative growth of the error under ONNX Runtime"


def _find_interval(name: str, outputs: Outputs, targets: NDArray[np.float64]) -> Interval | None:
    """Return the interval of a metric.

    With few samples, it is computed from the logarithm of the mean square, of the mean size, or of
    the unexplained share.
    """
    if len(targets) >= MANY:
        return bootstrap(partial(METRICS[name], outputs, targets), len(targets))
    if name == "r2" and not r2(outputs, targets, np.ones((1, len(targets))))[0]:
        return None  # equal targets
    errors = outputs.astype(np.float64) - targets
    logs = partial(_log_mean, np.abs(errors) if name == "mae" else errors**2)
    if name == "r2":
        logs = partial(_log_unexplained, errors**2, targets)
    found = bootstrap_t(logs, len(errors), usual=USUAL[name])
    if found is None:
        return None
    low, high = np.exp(found).tolist()
    if name == "r2":
        return 1 - high, 1 - low
    return (low**0.5, high**0.5) if name == "rmse" else (low, high)


def _log_mean(values: NDArray[np.float64], weights: Weights) -> Logs:
    means = average(values, weights)
    return np.log(means), values / means[:, None] - 1


def _log_unexplained(
    squares: NDArray[np.float64], targets: NDArray[np.float64], weights: Weights
) -> Logs:
    """Return the logarithm of 1 - r2, and influences on it."""
    means = average(squares, weights)
    spread = (targets - average(targets, weights)[:, None]) ** 2
    spreads = (weights * spread).sum(axis=1) / weights.sum(axis=1)
    return np.log(means / spreads), squares / means[:, None] - spread / spreads[:, None]
