"""Scores the outputs of a classifier, for any task whose model returns one logit per class."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import wilson
from redkiln.predict.labelled.macro_f1 import FEW_SAMPLES, macro_f1_of_few
from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.card import figures
from worker.export.card.markdown import escape, percent
from worker.export.scoring.calibration import measure_calibration
from worker.export.scoring.class_metrics import METRICS
from worker.export.scoring.confusion import confusion_matrix, score_classes, worst_confusions
from worker.export.scoring.intervals import bootstrap, newcombe
from worker.export.scoring.paired import judge_right, judge_swapped, stack
from worker.export.scoring.threshold import choose_threshold
from worker.export.target import CurveStyle, Outputs, ReadSplit

NUM_CONFUSIONS = 5
DOMINANT_SHARE = 0.8
"""From this share of one class on, models are compared by macro F1: a model that only knows this
class has a high accuracy."""


MOST_NAMED = 5
"""Classes that a text about few samples names."""
SMALLEST_SHARE = 1e-7
"""Share of a class without training samples, so that the logarithm is finite."""


class Classification:
    """A `worker.export.target.Scoring` of logits (N, classes) and labels (N,) int64.

    Args:
        classes: Names by label.
    """

    headline = "accuracy"
    targets_name = "labels"
    curve = CurveStyle("val/accuracy", "accuracy", is_share=True)
    figure = "confusion.png"
    is_error = False

    def __init__(self, classes: list[str]) -> None:
        self.classes = classes

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Compute all of METRICS that are defined: the AUC needs samples of two classes."""
        once = np.ones((1, len(targets)))
        found = {name: float(m(outputs, targets, once)[0]) for name, m in METRICS.items()}
        return {name: value for name, value in found.items() if not np.isnan(value)}

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return Wilson's interval of the accuracy, and bootstrap intervals of the others."""
        num = len(targets)
        share = float((outputs.argmax(axis=1) == targets).mean())
        found: dict[str, Interval] = {"accuracy": wilson(share, num)}
        for name in METRICS.keys() - {"accuracy"}:
            interval = self._find_interval(name, outputs, targets)
            if interval is not None:
                found[name] = interval
        return found

    def _find_interval(self, name: str, outputs: Outputs, targets: NDArray[Any]) -> Interval | None:
        metric, num = partial(METRICS[name], outputs, targets), len(targets)
        counts = self._count(targets)
        is_few = len(counts) == 2 and 0 < min(counts) < FEW_SAMPLES
        if name == "macro_f1" and is_few:
            return macro_f1_of_few(self._matrix(outputs, targets))
        if name != "auc":
            return bootstrap(metric, num)
        if is_few:
            return newcombe(float(metric(np.ones((1, num)))[0]), *counts)
        return bootstrap(metric, num, parts=len(self.classes))

    def _count(self, targets: NDArray[Any]) -> list[int]:
        counts: list[int] = np.bincount(targets, minlength=len(self.classes)).tolist()
        return counts

    def choose_compared(self, targets: NDArray[Any]) -> str:
        """Return accuracy, or macro F1 if one class dominates the training samples."""
        counts = np.bincount(targets.astype(np.int64))
        return "macro_f1" if counts.max() >= DOMINANT_SHARE * counts.sum() else "accuracy"

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the logs of the classes' shares, whose highest is the majority class."""
        counts = np.bincount(targets.astype(np.int64), minlength=len(self.classes))
        shares = np.maximum(counts / counts.sum(), SMALLEST_SHARE)
        return "majority class", np.tile(np.log(shares).astype(np.float32), (num, 1))

    def compare_pair(
        self, metric: str, ours: Outputs, theirs: Outputs, targets: NDArray[Any]
    ) -> Judgement | None:
        """Return McNemar's verdict by accuracy, or that of random swaps by another metric."""
        if metric == "accuracy":
            return judge_right(ours.argmax(axis=1) == targets, theirs.argmax(axis=1) == targets)
        both = partial(METRICS[metric], stack(ours, theirs), stack(targets, targets))
        return judge_swapped(both, len(targets))

    def choose_threshold(self, read: ReadSplit) -> ThresholdChoice | None:
        """Choose the threshold of the rarer one of two classes; None for more classes."""
        return choose_threshold(self.classes, read()) if len(self.classes) == 2 else None

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
        found = self.score(outputs, targets)
        figures.draw_confusion(
            self._matrix(outputs, targets),
            self.classes,
            path,
            title=f"{title}\n"
            f"test accuracy {found['accuracy']:.1%}, macro F1 {found['macro_f1']:.3f}",
        )

    def describe_headline(self, metrics: Mapping[str, float], *, compared: str) -> str:
        """Return the accuracy as text, or macro F1 if one class dominates."""
        if compared == "test/macro_f1":
            return f"Test macro F1 **{metrics[compared]:.3f}**"
        return f"Test accuracy **{metrics['test/accuracy']:.2%}**"

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return each class's scores, the confusion matrix, frequent mistakes, and calibration."""
        matrix = self._matrix(outputs, targets)
        few = self._describe_few(outputs, targets, noun=noun)
        rows = "\n".join(
            f"| {escape(score.name)} | {score.num:,} | {percent(score.precision)} "
            f"| {percent(score.recall)} | {percent(score.f1)} |"
            for score in score_classes(matrix, self.classes)
        )
        text = (
            f"{few}| class | test {noun} | precision | recall | F1 |\n|---|---|---|---|---|\n"
            f"{rows}\n\n"
            f"![curves](curves.png)\n\n![confusion]({self.figure})"
        )
        worst = ", ".join(
            f"{escape(true)} taken for {escape(predicted)} ({count})"
            for true, predicted, count in worst_confusions(
                matrix, self.classes, limit=NUM_CONFUSIONS
            )
        )
        calibration = measure_calibration(outputs, targets).describe(noun=noun)
        mistakes = f"Most frequent mistakes: {worst}.\n\n" if worst else ""
        return f"{text}\n\n{mistakes}{calibration}"

    def _describe_few(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return what makes the AUC uncertain, as a paragraph; nothing if each class has enough."""
        counts = self._count(targets)
        rare = [
            f"{num} of class {escape(name)}"
            for name, num in zip(self.classes, counts, strict=True)
            if 0 < num < FEW_SAMPLES
        ][:MOST_NAMED]
        if not rare or np.count_nonzero(counts) < 2:  # one class alone has no AUC
            return ""
        how = ": its interval, which comes from resamples, may be too narrow"
        if len(self.classes) == 2:
            how = ": its interval is Newcombe's, because one from resamples would be too narrow"
        elif self._find_interval("auc", outputs, targets) is None:
            how = ""
        few = ", ".join(rare)
        return f"The test split has few {noun} ({few}), so the AUC is uncertain{how}.\n\n"

    def describe_output(self) -> str:
        """Return the classes' names as text."""
        return f"Classes: {', '.join(escape(name) for name in self.classes)}"

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of accuracy under ONNX Runtime"

    def _matrix(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.int64]:
        predicted = outputs.argmax(axis=1)
        return confusion_matrix(targets, predicted, num_classes=len(self.classes))
