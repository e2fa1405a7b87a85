"""Scores a model that gives each sample several labels, for any task.

The exported model returns one probability for each class, and a class is a label of a sample if its
probability reaches the class's threshold.

Shapes: N samples, K classes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import wilson
from redkiln.predict.label_metrics import (
    METRICS,
    Answers,
    average_precisions,
    decide,
    score_once,
    subset_accuracy,
)
from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.card.class_bars import draw_class_bars
from worker.export.card.markdown import escape, percent
from worker.export.scoring.confusion import ClassScore
from worker.export.scoring.intervals import bootstrap
from worker.export.scoring.paired import judge_swapped, stack
from worker.export.scoring.threshold import USUAL, find_best_threshold
from worker.export.target import CurveStyle, Outputs, ReadSplit

FEWEST_POSITIVES = 20
"""Validation samples with a label, and without it, below which its threshold stays 0.5: one that
is chosen on a few samples is often far off."""


class MultiLabel:
    """A `worker.export.target.Scoring` of probabilities (N, K) and targets (N, K), 0 or 1.

    Args:
        classes: Names by label.
        thresholds: (K,) probability from which a class is a label; None for 0.5.
        temperatures: (K,) number that the model divides each class's logit by; None for 1.
    """

    headline = "map"
    targets_name = "labels"
    curve = CurveStyle("val/map", "mean average precision", is_share=True)
    figure = "labels.png"
    is_error = False

    def __init__(
        self,
        classes: list[str],
        thresholds: Sequence[float] | None = None,
        temperatures: Sequence[float] | None = None,
    ) -> None:
        self.classes = classes
        self.thresholds = [USUAL] * len(classes) if thresholds is None else list(thresholds)
        self.temperatures = [1.0] * len(classes) if temperatures is None else list(temperatures)

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Compute all metrics of `redkiln.predict.label_metrics`."""
        return score_once(outputs, targets, self.thresholds)

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return Wilson's interval of the accuracy, and bootstrap intervals of the others."""
        num, answers = len(targets), Answers.of(outputs, targets, self.thresholds)
        share = float(subset_accuracy(answers, np.ones((1, num)))[0])
        found: dict[str, Interval] = {"accuracy": wilson(share, num)}
        for name in METRICS.keys() - {"accuracy"}:
            interval = bootstrap(partial(METRICS[name], answers), num, parts=len(self.classes))
            if interval is not None:
                found[name] = interval
        return found

    def choose_compared(self, targets: NDArray[Any]) -> str:  # noqa: ARG002 - always the same
        """Return the mean average precision, which does not depend on thresholds."""
        return "map"

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the share of samples that have each label."""
        return "label shares", np.tile(targets.mean(axis=0).astype(np.float32), (num, 1))

    def compare_pair(
        self, metric: str, ours: Outputs, theirs: Outputs, targets: NDArray[Any]
    ) -> Judgement | None:
        """Return the verdict of random swaps."""
        answers = Answers.of(stack(ours, theirs), stack(targets, targets), self.thresholds)
        both = partial(METRICS[metric], answers)
        return judge_swapped(both, len(targets), parts=len(self.classes))

    def choose_threshold(
        self,
        read: ReadSplit,  # noqa: ARG002 - each class has a threshold already
    ) -> ThresholdChoice | None:
        """Return None: each class has its own threshold."""
        return None

    def find_drop(self, value: float, onnx: float) -> float:
        """Return the loss of mean average precision."""
        return value - onnx

    def explain_drop(self, drop: float) -> str:
        """Describe the loss of mean average precision."""
        return f"the mean average precision is {drop:.4f} lower"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Return the share of samples for which both find the same labels."""
        found, known = decide(onnx, self.thresholds), decide(reference, self.thresholds)
        return float((found == known).all(axis=1).mean())

    def describe(self) -> dict[str, Any]:
        """Return the classes, their thresholds and their temperatures."""
        return {
            "classes": self.classes,
            "thresholds": [round(value, 6) for value in self.thresholds],
            "temperatures": [round(value, 6) for value in self.temperatures],
        }

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Draw the average precision of each class."""
        known = [score.name for score in self.score_classes(outputs, targets) if score.num]
        values = self.list_precisions(outputs, targets)
        draw_class_bars(
            known,
            values[np.isfinite(values)],
            path,
            title=f"{title}: mean average precision {np.nanmean(values):.1%}",
            label="average precision",
        )

    def describe_headline(
        self,
        metrics: Mapping[str, float],
        *,
        compared: str,  # noqa: ARG002 - always the same
    ) -> str:
        """Return the mean average precision and macro F1 as text."""
        return (
            f"Test mean average precision **{metrics['test/map']:.2%}**, macro F1 "
            f"**{metrics['test/macro_f1']:.2%}**"
        )

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the scores and the threshold of each class."""
        precisions = self.list_precisions(outputs, targets)
        rows = "\n".join(
            f"| {escape(score.name)} | {score.num:,} | {threshold:.3f} "
            f"| {percent(score.precision)} | {percent(score.recall)} | {percent(score.f1)} "
            f"| {percent(float(precision) if np.isfinite(precision) else None)} |"
            for score, threshold, precision in zip(
                self.score_classes(outputs, targets), self.thresholds, precisions, strict=True
            )
        )
        return (
            "A class is a label if its probability is at least its threshold. The probabilities "
            "are calibrated: the model divides the logit of each class by a temperature that fits "
            f"the validation split ({_list_range(self.temperatures)}). "
            f"{self._describe_thresholds(noun)} `accuracy` is the share of {noun} "
            "whose labels are all right, `hamming_loss` the share of wrong decisions, and `map` "
            "the mean of the classes' average precision (AP), which needs no threshold.\n\n"
            f"| class | test {noun} | threshold | precision | recall | F1 | AP |\n"
            f"|---|---|---|---|---|---|---|\n{rows}\n\n"
            f"![curves](curves.png)\n\n![labels]({self.figure})"
        )

    def _describe_thresholds(self, noun: str) -> str:
        if all(value == USUAL for value in self.thresholds):
            return (
                f"All thresholds are {USUAL}: no other one has a higher F1 on the validation "
                f"split, or the class has fewer than {FEWEST_POSITIVES} {noun} there."
            )
        return (
            "The thresholds have the highest F1 on the validation split; a class with fewer than "
            f"{FEWEST_POSITIVES} {noun} there keeps {USUAL}."
        )

    def describe_output(self) -> str:
        """Return the classes' names as text."""
        listed = ", ".join(escape(name) for name in self.classes)
        return f"Classes, of which each sample can have several: {listed}"

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of mean average precision under ONNX Runtime"

    def list_precisions(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return the average precision of each class (K,), NaN without samples."""
        once = np.ones((1, len(targets)))
        found: NDArray[np.float64] = average_precisions(outputs, targets.astype(bool), once)[0]
        return found

    def score_classes(self, outputs: Outputs, targets: NDArray[Any]) -> list[ClassScore]:
        """Return precision, recall and F1 of each class."""
        found, is_true = decide(outputs, self.thresholds), targets.astype(bool)
        counts = zip(
            (found & is_true).sum(axis=0).tolist(),
            is_true.sum(axis=0).tolist(),
            found.sum(axis=0).tolist(),
            strict=True,
        )
        return [
            ClassScore(
                name,
                num,
                precision=right / called if called else None,
                recall=right / num if num else None,
                f1=2 * right / (num + called) if num + called else None,
            )
            for name, (right, num, called) in zip(self.classes, counts, strict=True)
        ]


def _list_range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def choose_thresholds(probabilities: Outputs, targets: NDArray[Any]) -> list[float]:
    """Return the threshold of each class with the highest F1, 0.5 without enough samples.

    Args:
        probabilities: (N, K) of the validation split.
        targets: (N, K) of the same samples.
    """
    num = targets.sum(axis=0)
    is_enough = np.minimum(num, len(targets) - num) >= FEWEST_POSITIVES
    return [
        find_best_threshold(probabilities[:, place].astype(np.float64), targets[:, place] > 0)
        if is_enough[place]
        else USUAL
        for place in range(targets.shape[1])
    ]
