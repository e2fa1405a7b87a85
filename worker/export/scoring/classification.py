"""Scores the outputs of a classifier, for any task whose model returns one logit per class."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.export.card import figures
from worker.export.card.markdown import escape, percent
from worker.export.scoring.confusion import (
    accuracy,
    confusion_matrix,
    cross_entropy,
    macro_f1,
    score_classes,
    worst_confusions,
)
from worker.export.target import CurveStyle, Outputs

NUM_CONFUSIONS = 5
METRICS = {"accuracy": accuracy, "loss": cross_entropy, "macro_f1": macro_f1}


class Classification:
    """A `worker.export.target.Scoring` of logits (N, classes) and labels (N,) int64.

    Args:
        classes: Names by label.
        metrics: Metrics to compute, keys of METRICS; must include accuracy.
    """

    headline = "accuracy"
    targets_name = "labels"
    curve = CurveStyle("val/accuracy", "accuracy", is_share=True)
    figure = "confusion.png"

    def __init__(
        self, classes: list[str], *, metrics: Sequence[str] = ("accuracy", "loss")
    ) -> None:
        self.classes = classes
        self._metrics = metrics

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Compute the selected metrics."""
        return {name: METRICS[name](outputs, targets) for name in self._metrics}

    def find_drop(self, value: float, onnx: float) -> float:
        """Return the loss of accuracy."""
        return value - onnx

    def explain_drop(self, drop: float) -> str:
        """Describe the loss of accuracy."""
        return f"the metric is {drop:.4f} lower"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Return the share of samples for which both predict the same class."""
        return float((onnx.argmax(axis=1) == reference.argmax(axis=1)).mean())

    def describe(self) -> dict[str, Any]:
        """Return the classes."""
        return {"classes": self.classes}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Draw the confusion matrix."""
        figures.draw_confusion(
            self._matrix(outputs, targets),
            self.classes,
            path,
            title=f"{title}: test accuracy {accuracy(outputs, targets):.1%}",
        )

    def tell_headline(self, metrics: Mapping[str, float]) -> str:
        """Return the accuracy as text."""
        return f"Test accuracy **{metrics['test/accuracy']:.2%}**"

    def tell_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return each class's scores, the confusion matrix, and the most frequent mistakes."""
        matrix = self._matrix(outputs, targets)
        rows = "\n".join(
            f"| {escape(score.name)} | {score.num:,} | {percent(score.precision)} "
            f"| {percent(score.recall)} | {percent(score.f1)} |"
            for score in score_classes(matrix, self.classes)
        )
        text = (
            f"| class | test {noun} | precision | recall | F1 |\n|---|---|---|---|---|\n"
            f"{rows}\n\n"
            f"![curves](curves.png)\n\n![confusion]({self.figure})"
        )
        worst = ", ".join(
            f"{escape(true)} taken for {escape(predicted)} ({count})"
            for true, predicted, count in worst_confusions(
                matrix, self.classes, limit=NUM_CONFUSIONS
            )
        )
        return f"{text}\n\nMost frequent mistakes: {worst}." if worst else text

    def tell_output(self) -> str:
        """Return the classes' names as text."""
        return f"Classes: {', '.join(escape(name) for name in self.classes)}"

    def tell_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of accuracy under ONNX Runtime"

    def _matrix(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.int64]:
        predicted = outputs.argmax(axis=1)
        return confusion_matrix(targets, predicted, num_classes=len(self.classes))
