"""Scores the boxes of a detector as COCO does.

Shapes: N images, M reported boxes of an image, G most objects of an image, K classes, R recalls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.intervals import RESAMPLED_SCORE, find_box_intervals
from redkiln.predict.boxes.joined import OBJECTS, drop_crowds, list_found, list_truth
from redkiln.predict.boxes.matching import SAME_OBJECT, find_agreement, is_in_crowd, match
from redkiln.predict.boxes.scores import Detections, Kind, evaluate_as_coco, score_detections
from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.card.markdown import escape, percent
from worker.export.target import CurveStyle, Outputs, ReadSplit
from worker.tasks.object_detection.figure import draw_curves
from worker.trainer.detection.preview import draw_boxes
from worker.trainer.detection.selection import MOST_FOUND


@dataclass(frozen=True)
class BoxScore:
    """Scores of one class on the test split; None where a ratio has no boxes.

    Attributes:
        num: Objects of the class.
        precision: Share of its reported boxes that are objects.
        recall: Share of its objects that are found.
        average_precision: Mean over overlaps of 0.5 to 0.95.
        average_precision_50: The same at an overlap of 0.5.
    """

    name: str
    num: int
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None
    average_precision_50: float | None


class DetectionScoring:
    """A `worker.export.target.Scoring` of boxes (N, M, 6) and objects (N, G, 5).

    Args:
        classes: Names by label.
        threshold: Smallest score of a reported box, by default.
        choice: How boxes are chosen, as JSON.
    """

    headline = "map"
    targets_name = OBJECTS
    curve = CurveStyle("val/map", "mean average precision", is_share=True)
    figure = "precision.png"
    is_error = False
    kind: Kind = "bbox"
    """What overlaps with an object if it is found."""
    tile_side = 192
    """Largest side of an image of the worst ones in pixels."""

    def __init__(self, classes: list[str], *, threshold: float, choice: dict[str, Any]) -> None:
        self.classes, self.threshold, self._choice = classes, threshold, choice

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return COCO's average precisions: of all objects, and of small, medium and large ones."""
        return score_detections(
            list_found(outputs), list_truth(targets), num_classes=len(self.classes), by_size=True
        )

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return bootstrap intervals over images; none if that would take long."""
        found, truth = list_found(outputs, threshold=RESAMPLED_SCORE), list_truth(targets)
        num = len(self.classes)
        return find_box_intervals(found, truth, num_classes=num, kind=self.kind)

    def choose_compared(self, targets: NDArray[Any]) -> str:  # noqa: ARG002 - always the same
        """Return the mean average precision."""
        return self.headline

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the median box of each class, the most frequent class with the highest score."""
        outputs = np.zeros((num, MOST_FOUND, 6), dtype=np.float32)
        outputs[..., 5] = -1
        objects = targets[targets[..., 0] >= 0]  # (objects, 5)
        labels = objects[:, 0].astype(np.int64)
        counts = np.bincount(labels, minlength=len(self.classes))
        known = np.flatnonzero(counts)
        for place, label in enumerate(known[np.argsort(-counts[known])][:MOST_FOUND].tolist()):
            box = np.median(objects[labels == label, 1:], axis=0)
            outputs[:, place] = [*box, counts[label] / counts.sum(), label]
        return "median box of each class", outputs

    def compare_pair(
        self,
        metric: str,  # noqa: ARG002
        ours: Outputs,  # noqa: ARG002
        theirs: Outputs,  # noqa: ARG002
        targets: NDArray[Any],  # noqa: ARG002
    ) -> Judgement | None:
        """Return None: boxes have only a constant baseline, which the interval is compared with."""
        return None

    def choose_threshold(
        self,
        read: ReadSplit,  # noqa: ARG002 - the threshold is part of the file
    ) -> ThresholdChoice | None:
        """Return None: the file has its own default threshold."""
        return None

    def find_drop(self, value: float, onnx: float) -> float:
        """Return the loss of mean average precision."""
        return value - onnx

    def explain_drop(self, drop: float) -> str:
        """Describe the loss of mean average precision."""
        return f"the mean average precision is {drop:.4f} lower"

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Return the share of boxes that have a partner in the other runtime, one to one."""
        return find_agreement(onnx, reference)

    def draw_image(
        self, pixels: NDArray[np.uint8], found: Detections, truth: Detections
    ) -> NDArray[np.uint8]:
        """Return an image (S, S, C) with the found and the true objects, which is square."""
        return draw_boxes(pixels, found, truth)

    def describe(self) -> dict[str, Any]:
        """Return the classes, and how boxes are chosen."""
        return {"classes": self.classes, "detection": self._choice}

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Path, *, title: str) -> None:
        """Draw precision against recall of each class."""
        precision = self._measure(outputs, targets)[0]  # overlaps of 0.5
        map50 = self.score(outputs, targets)["map50"]
        draw_curves(precision, self.classes, path, title=f"{title}: test AP50 {map50:.1%}")

    def describe_headline(
        self,
        metrics: Mapping[str, float],
        *,
        compared: str,  # noqa: ARG002 - always the same
    ) -> str:
        """Return the average precisions as text."""
        return (
            f"Test mean average precision **{metrics['test/map']:.2%}** (AP50 "
            f"**{metrics['test/map50']:.2%}**, AP75 {metrics['test/map75']:.2%})"
        )

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the scores of each class."""
        rows = "\n".join(
            f"| {escape(one.name)} | {one.num:,} | {percent(one.average_precision)} "
            f"| {percent(one.average_precision_50)} | {percent(one.precision)} "
            f"| {percent(one.recall)} | {percent(one.f1)} |"
            for one in self.score_classes(outputs, targets)
        )
        return (
            f"{self.describe_metrics()} "
            f"Precision, recall and F1 are those of objects with a score of at least "
            f"{self.threshold:g}, the model's default, at an overlap of {SAME_OBJECT}.\n\n"
            f"| class | objects in the test {noun} | AP | AP50 | precision | recall | F1 |\n"
            f"|---|---|---|---|---|---|---|\n{rows}\n\n"
            f"![curves](curves.png)\n\n![precision and recall]({self.figure})"
        )

    def describe_metrics(self) -> str:
        """Return what the average precisions mean."""
        return (
            "`map` is COCO's AP: the mean of the classes' average precision at overlaps (IoU) of "
            "0.5 to 0.95; `map50` and `map75` are those at 0.5 and 0.75. `map_small`, `map_medium` "
            "and `map_large` are of objects below 32x32, below 96x96, and larger, in pixels of the "
            "model's input."
        )

    def describe_output(self) -> str:
        """Return the classes' names as text."""
        return f"Classes: {', '.join(escape(name) for name in self.classes)}"

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of mean average precision under ONNX Runtime"

    def score_classes(self, outputs: Outputs, targets: NDArray[Any]) -> list[BoxScore]:
        """Return the scores of each class."""
        precision = self._measure(outputs, targets)  # (overlaps, R, K)
        counts = self._count(outputs, targets)
        found = []
        for label, (name, (right, called, num)) in enumerate(
            zip(self.classes, counts.tolist(), strict=True)
        ):
            curve = precision[:, :, label]
            is_known = num > 0
            found.append(
                BoxScore(
                    name,
                    num,
                    precision=right / called if called else None,
                    recall=right / num if num else None,
                    f1=2 * right / (num + called) if num + called else None,
                    average_precision=float(curve.mean()) if is_known else None,
                    average_precision_50=float(curve[0].mean()) if is_known else None,
                )
            )
        return found

    def _measure(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return precision (overlaps, R, K) at 101 recalls; -1 for classes without objects."""
        truth = list_truth(targets)
        if not any((image.labels >= 0).any() for image in truth):
            return np.full((10, 101, len(self.classes)), -1.0)
        num = len(self.classes)
        found = list_found(outputs)
        evaluation = evaluate_as_coco(found, truth, num_classes=num, kind=self.kind)
        precision: NDArray[np.float64] = evaluation.eval["precision"][:, :, :, 0, -1]
        return precision

    def _count(self, outputs: Outputs, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return for each class (K, 3): right boxes, all boxes, and objects."""
        counts = np.zeros((len(self.classes), 3), dtype=np.int64)
        found = list_found(outputs, threshold=self.threshold)
        for here, true in zip(found, list_truth(targets), strict=True):
            is_right, counted = judge_boxes(here, true)
            np.add.at(counts[:, 0], here.labels[is_right], 1)
            np.add.at(counts[:, 1], here.labels[counted], 1)
            np.add.at(counts[:, 2], drop_crowds(true).labels, 1)
        return counts


def judge_boxes(found: Detections, truth: Detections) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which boxes are objects, and which count: those in crowds are not mistakes."""
    is_right = match(found, drop_crowds(truth), least_iou=SAME_OBJECT) >= 0
    return is_right, is_right | ~is_in_crowd(found, truth)
