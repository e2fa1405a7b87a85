"""Scores the outputs of a regressor, for any task whose model returns one value per sample."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.export.card import figures
from worker.export.card.markdown import escape
from worker.export.target import CurveStyle, Outputs

QUANTILES = (0.5, 0.9, 0.99)


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

    def __init__(self, target: str, *, mean: float, std: float) -> None:
        self._target = target
        self._mean = mean
        self._std = std

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return errors in the target's unit, and the explained share of its variance."""
        wanted = targets.astype(np.float64)
        error = outputs.astype(np.float64) - wanted
        squares, spread = float((error**2).mean()), float(wanted.var())
        return {
            "rmse": squares**0.5,
            "mae": float(np.abs(error).mean()),
            "r2": 1 - squares / spread if spread > 1e-12 * float((wanted**2).mean()) else 0.0,
        }

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
            title=f"{title}: test RMSE {metrics['rmse']:.4g}, R² {metrics['r2']:.3f}",
            target=self._target,
        )

    def tell_headline(self, metrics: Mapping[str, float]) -> str:
        """Return the error and the explained share as text."""
        return (
            f"Test root mean square error **{metrics['test/rmse']:.4g}** (mean absolute "
            f"error {metrics['test/mae']:.4g}, R² {metrics['test/r2']:.3f})"
        )

    def tell_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the sizes of errors, compared with those of always predicting the mean."""
        error = np.abs(outputs.astype(np.float64) - targets)
        rows = "\n".join(
            f"| {share:.0%} of the test {noun} are within | {np.quantile(error, share):.4g} |"
            for share in QUANTILES
        )
        baseline = float(np.sqrt(np.mean((targets - self._mean) ** 2)))
        return (
            f"| | error |\n|---|---|\n{rows}\n| largest | {error.max():.4g} |\n\n"
            f"Always predicting the training mean, {self._mean:.4g}, would have a root mean square "
            f"error of {baseline:.4g}.\n\n"
            f"![curves](curves.png)\n\n![predictions]({self.figure})"
        )

    def tell_output(self) -> str:
        """Return the target and its distribution as text."""
        return (
            f"Target: {escape(self._target)}, mean {self._mean:.4g}, standard deviation "
            f"{self._std:.4g} in the training split"
        )

    def tell_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "relative growth of the error under ONNX Runtime"
