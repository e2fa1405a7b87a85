"""Scores the masks of a segmenter: IoU and Dice of each class.

Shapes: N images, S side in pixels, K classes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.masks.outputs import TARGETS
from redkiln.predict.masks.scores import (
    ClassScore,
    Counts,
    count_pixels,
    find_mask_intervals,
    score_classes,
    score_counts,
)
from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.card.markdown import escape, percent
from worker.export.target import CurveStyle, Outputs, ReadSplit
from worker.tasks.semantic_segmentation.figure import draw_bars

MOST_COUNTED = 1000
"""Training images of which the constant answer is made, evenly spaced."""


class SegmentationScoring:
    """A `worker.export.target.Scoring` of masks (N, S, S) uint8.

    Args:
        classes: Names by label.
    """

    headline = "miou"
    targets_name = TARGETS
    curve = CurveStyle("val/miou", "mean IoU", is_share=True)
    figure = "iou.png"
    is_error = False

    def __init__(self, classes: list[str]) -> None:
        self.classes = classes

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return mean IoU, Dice, and the share of right pixels."""
        return score_counts(self._count(outputs, targets).sum(axis=0))

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return bootstrap intervals over images; none if that would take long."""
        return find_mask_intervals(self._count(outputs, targets))

    def choose_compared(self, targets: NDArray[Any]) -> str:  # noqa: ARG002 - always the same
        """Return the mean IoU."""
        return self.headline

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the most frequent class of each place."""
        some = targets[:: -(-len(targets) // MOST_COUNTED)]
        most = np.full(some.shape[1:], -1, dtype=np.int64)
        best = np.zeros(some.shape[1:], dtype=np.uint8)
        for label in range(len(self.classes)):
            found = (some == label).sum(axis=0)
            best[found > most] = label
            most = np.maximum(most, found)
        outputs: NDArray[Any] = np.repeat(best[None], num, axis=0)
        return "most frequent class of each place", outputs

    def compare_pair(
        self,
        metric: str,  # noqa: ARG002
        ours: Outputs,  # noqa: ARG002
        theirs: Outputs,  # noqa: ARG002
        targets: NDArray[Any],  # noqa: ARG002
    ) -> Judgement | None:
        """Return None: masks have only a constant baseline, which the interval is compared with."""
        return None

    def choose_threshold(
        self,
        read: ReadSplit,  # noqa: ARG002 - each pixel has its most probable class
    ) -> ThresholdChoice | None:
        """Return None: the answer is the class with the highest logit."""
        return None

    def find_drop(self, value: float, onnx: float) -> float:
        """Return the loss of mean IoU."""
        return value - onnx

    def explain_drop(self, drop: float) -> str:
        """Describe the loss of mean IoU."""
        return f"the mean IoU is {drop:.4f} lower"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Return the share of pixels with the same class."""
        return float(
            np.mean([(one == other).mean() for one, other in zip(onnx, reference, strict=True)])
        )

    def describe(self) -> dict[str, Any]:
        """Return the classes, and which label of a target does not count."""
        return {"classes": self.classes, "segmentation": {"ignored": IGNORED}}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Draw the IoU of each class."""
        scores = self.score_classes(outputs, targets)
        miou = self.score(outputs, targets)["miou"]
        draw_bars(scores, path, title=f"{title}: test mean IoU {miou:.1%}")

    def describe_headline(
        self,
        metrics: Mapping[str, float],
        *,
        compared: str,  # noqa: ARG002 - always the same
    ) -> str:
        """Return the metrics as text."""
        return (
            f"Test mean IoU **{metrics['test/miou']:.2%}** (Dice {metrics['test/dice']:.2%}, "
            f"right pixels {metrics['test/pixel_accuracy']:.2%})"
        )

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the scores of each class."""
        rows = "\n".join(
            f"| {escape(one.name)} | {one.num:,} | {percent(one.iou)} | {percent(one.dice)} "
            f"| {percent(one.precision)} | {percent(one.recall)} |"
            for one in self.score_classes(outputs, targets)
        )
        return (
            "`miou` is the mean over the classes of the IoU: the pixels that are right, divided by "
            "those that are of the class or found as it, in all test images together. `dice` is "
            "twice the right pixels, divided by the sum of both. Pixels that the masks ignore do "
            "not count.\n\n"
            f"| class | pixels in the test {noun} | IoU | Dice | precision | recall |\n"
            f"|---|---|---|---|---|---|\n{rows}\n\n"
            f"![curves](curves.png)\n\n![IoU by class]({self.figure})"
        )

    def describe_output(self) -> str:
        """Return the classes' names as text."""
        return f"Classes: {', '.join(escape(name) for name in self.classes)}"

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of mean IoU under ONNX Runtime"

    def score_classes(self, outputs: Outputs, targets: NDArray[Any]) -> list[ClassScore]:
        """Return the scores of each class."""
        return score_classes(self._count(outputs, targets).sum(axis=0), self.classes)

    def _count(self, outputs: Outputs, targets: NDArray[Any]) -> Counts:
        """Return the pixels of each image by true and found class, (N, K, K)."""
        pairs = zip(outputs, targets, strict=True)
        found: list[Counts] = [
            count_pixels(one.astype(np.uint8), other, len(self.classes)) for one, other in pairs
        ]
        return np.stack(found)
