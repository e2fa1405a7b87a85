"""What a regressor's outputs are worth, for any task whose model gives one value a sample."""

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
        target: its column's name.
        mean: of the training targets.
        std: of the same.
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
        """Errors in the target's unit, and the share of its variance that is explained."""
        wanted = targets.astype(np.float64)
        error = outputs.astype(np.float64) - wanted
        squares, spread = float((error**2).mean()), float(wanted.var())
        return {
            "rmse": squares**0.5,
            "mae": float(np.abs(error).mean()),
            "r2": 1 - squares / spread if spread > 1e-12 * float((wanted**2).mean()) else 0.0,
        }

    def find_drop(self, value: float, onnx: float) -> float:
        """Share by which the error is larger; rounding is nothing where the model is exact."""
        return (onnx - value) / max(value, 1e-6 * self._std)

    def explain_drop(self, drop: float) -> str:
        """In words."""
        return f"the metric (rmse) is {drop:.2%} worse"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:  # noqa: ARG002
        """Nothing: values seldom agree to the last bit."""
        return None

    def describe(self) -> dict[str, Any]:
        """The target."""
        return {"target": {"name": self._target, "mean": self._mean, "std": self._std}}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Predicted over true values."""
        metrics = self.score(outputs, targets)
        figures.draw_predictions(
            outputs,
            targets,
            path,
            title=f"{title}: test RMSE {metrics['rmse']:.4g}, R² {metrics['r2']:.3f}",
            target=self._target,
        )

    def tell_headline(self, metrics: Mapping[str, float]) -> str:
        """Error and explained share."""
        return (
            f"Test root mean square error **{metrics['test/rmse']:.4g}** (mean absolute "
            f"error {metrics['test/mae']:.4g}, R² {metrics['test/r2']:.3f})"
        )

    def tell_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """How large errors are, beside what the mean alone would give."""
        error = np.abs(outputs.astype(np.float64) - targets)
        rows = "\n".join(
            f"| {share:.0%} of the test {noun} are within | {np.quantile(error, share):.4g} |"
            for share in QUANTILES
        )
        baseline = float(np.sqrt(np.mean((targets - self._mean) ** 2)))
        return (
            f"| | error |\n|---|---|\n{rows}\n| largest | {error.max():.4g} |\n\n"
            f"The training mean, {self._mean:.4g}, as the answer to everything would have a root "
            f"mean square error of {baseline:.4g}.\n\n"
            f"![curves](curves.png)\n\n![predictions]({self.figure})"
        )

    def tell_output(self) -> str:
        """The target and its range."""
        return (
            f"Target: {escape(self._target)}, mean {self._mean:.4g}, standard deviation "
            f"{self._std:.4g} in the training split"
        )

    def tell_drop(self) -> str:
        """In the table of the gate."""
        return "share by which the error grows under ONNX Runtime"
