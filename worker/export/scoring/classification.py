"""What a classifier's outputs are worth, for any task whose model gives a logit for each class."""

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
        classes: names, by label.
        metrics: those to score, names of METRICS; accuracy must be one.
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
        """The metrics asked for."""
        return {name: METRICS[name](outputs, targets) for name in self._metrics}

    def find_drop(self, value: float, onnx: float) -> float:
        """Accuracy lost."""
        return value - onnx

    def explain_drop(self, drop: float) -> str:
        """In words."""
        return f"the metric is {drop:.4f} lower"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Share of samples that both call the same."""
        return float((onnx.argmax(axis=1) == reference.argmax(axis=1)).mean())

    def describe(self) -> dict[str, Any]:
        """The classes."""
        return {"classes": self.classes}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """The confusion matrix."""
        figures.draw_confusion(
            self._matrix(outputs, targets),
            self.classes,
            path,
            title=f"{title}: test accuracy {accuracy(outputs, targets):.1%}",
        )

    def tell_headline(self, metrics: Mapping[str, float]) -> str:
        """The accuracy."""
        return f"Test accuracy **{metrics['test/accuracy']:.2%}**"

    def tell_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Each class's scores, the confusion matrix, and the most frequent mistakes."""
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
        """The classes' names."""
        return f"Classes: {', '.join(escape(name) for name in self.classes)}"

    def tell_drop(self) -> str:
        """In the table of the gate."""
        return "accuracy lost under ONNX Runtime"

    def _matrix(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.int64]:
        predicted = outputs.argmax(axis=1)
        return confusion_matrix(targets, predicted, num_classes=len(self.classes))
