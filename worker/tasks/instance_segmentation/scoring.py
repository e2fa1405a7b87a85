"""Scores the masks of objects as COCO does.

Shapes: N images, each a `Detections` with the runs of its masks; S side of the square in pixels.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import list_found, list_truth
from redkiln.predict.boxes.scores import Detections, Kind
from redkiln.predict.instances.joined import as_array
from redkiln.predict.instances.regions import encode
from worker.export.target import CurveStyle, Outputs
from worker.tasks.object_detection.scoring import DetectionScoring
from worker.trainer.detection.preview import draw_boxes
from worker.trainer.detection.selection import MOST_FOUND
from worker.trainer.instances.evaluate import score_both
from worker.trainer.instances.preview import draw_pair


class InstanceScoring(DetectionScoring):
    """A `worker.export.target.Scoring` of found objects (N,) and true ones (N,)."""

    curve = CurveStyle("val/map", "mean average precision of masks", is_share=True)
    kind: Kind = "segm"
    tile_side = 256

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return COCO's average precisions of masks, also by size, and those of boxes."""
        num = len(self.classes)
        return score_both(list_found(outputs), list_truth(targets), num_classes=num, by_size=True)

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the filled median box of each class, the most frequent class first."""
        truth = list_truth(targets)
        side = truth[0].side
        labels = np.concatenate([one.labels for one in truth])
        boxes = np.concatenate([one.boxes for one in truth])
        counts = np.bincount(labels[labels >= 0], minlength=len(self.classes))
        known = np.flatnonzero(counts)
        order = known[np.argsort(-counts[known])][:MOST_FOUND]
        medians = np.stack([np.median(boxes[labels == label], axis=0) for label in order])
        corners = medians.round().astype(int).tolist()
        masks = np.zeros((len(order), side, side), dtype=np.uint8)
        for mask, (left, top, right, bottom) in zip(masks, corners, strict=True):
            mask[top:bottom, left:right] = 1
        scores = counts[order] / counts.sum()
        answer = Detections(medians, scores, order.astype(np.int64), encode(masks), side)
        return "filled median box of each class", as_array([answer] * num)

    def explain_drop(self, drop: float) -> str:
        """Describe the loss of mean average precision."""
        return f"the mean average precision of masks is {drop:.4f} lower"

    def draw_image(
        self, pixels: NDArray[np.uint8], found: Detections, truth: Detections
    ) -> NDArray[np.uint8]:
        """Return (2 S, 2 S, 3): the image, its boxes, its true masks, and the found ones."""
        plain = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
        above = np.concatenate([plain, draw_boxes(pixels, found, truth)], axis=1)
        return np.concatenate([above, draw_pair(pixels, found, truth)], axis=0)

    def describe_headline(
        self,
        metrics: Mapping[str, float],
        *,
        compared: str,  # noqa: ARG002 - always the same
    ) -> str:
        """Return the average precisions as text."""
        return (
            f"Test mean average precision of masks **{metrics['test/map']:.2%}** (AP50 "
            f"**{metrics['test/map50']:.2%}**, AP75 {metrics['test/map75']:.2%}), of boxes "
            f"{metrics['test/box_map']:.2%}"
        )

    def describe_metrics(self) -> str:
        """Return what the average precisions mean."""
        return (
            f"{super().describe_metrics()} All of these are of masks; `box_map`, `box_map50` and "
            "`box_map75` are the same of boxes."
        )

    def describe_drop(self) -> str:
        """Return the label for the table of the gate."""
        return "loss of mean average precision of masks under ONNX Runtime"
