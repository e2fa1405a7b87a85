"""The loss of a dense detector: classes with the quality of the box, overlap, and distances.

Sums are divided by the number of images and a constant, not by the cells that were chosen in the
batch. The losses of the parts of a batch therefore add up to that of the whole, whether memory ran
out or several devices share it.

Shapes: B batch, M objects of an image, A cells, K classes, P chosen cells of an object.

Source: Li et al., Generalized Focal Loss, arXiv:2006.04388 (quality and distribution).
"""

import torch
from torch.nn import functional

from redkiln.predict.boxes.scores import CROWD
from worker.trainer.detection.assignment import assign_cells, take_cells
from worker.trainer.detection.boxes import box_giou
from worker.trainer.detection.detector import BINS, Detector

CLASS_WEIGHT, BOX_WEIGHT, DISTANCE_WEIGHT = 1.0, 2.0, 0.5
CELLS_AN_OBJECT = 4.0
"""Usual sum of the qualities of an object's cells, which the losses of classes grow with."""


class DetectionLoss:
    """The mean loss of a batch's outputs (B, A, 4 * BINS + K) and targets (B, M, 5).

    A target is label, left, top, right and bottom in pixels of the square. Its label is negative
    where there is no object. Cells in a box with the label `CROWD` do not learn that they see
    nothing.

    Args:
        detector: The network, which knows where its cells are.
        objects_an_image: Mean number of objects in a training image.
        has_crowds: Whether any target can be a crowd.
        is_equal: Whether the box of each object counts the same, so that losses of different epochs
            can be compared. Otherwise an object counts as much as its best box overlaps it, which
            trains to a higher precision, but lets the loss rise in the first steps.
    """

    def __init__(
        self,
        detector: Detector,
        *,
        objects_an_image: float,
        has_crowds: bool = False,
        is_equal: bool = False,
    ) -> None:
        self._detector = detector
        self._expected = max(1.0, objects_an_image)
        self._has_crowds = has_crowds
        self._is_equal = is_equal

    def __call__(self, raw: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss, with gradients."""
        detector = self._detector
        labels, boxes = targets[..., 0].long(), targets[..., 1:]
        predicted = detector.place_boxes(raw)
        logits = raw[..., 4 * BINS :]
        with torch.no_grad():
            chosen = assign_cells(
                boxes,
                labels,
                predicted=predicted.detach(),
                scores=logits.detach().sigmoid(),
                points=detector.points,
                image_size=detector.image_size,
            )
        seen = self._find_seen(boxes, labels) if self._has_crowds else None
        by_class = _sum_quality_losses(logits, labels, chosen.cells, chosen.quality, seen)
        cells = chosen.cells.flatten(1)
        fit = 1.0 if self._is_equal else chosen.quality.amax(dim=2, keepdim=True)
        weights = (chosen.weights * fit).flatten(1)  # (B, M * P)
        wanted = boxes[:, :, None].expand(-1, -1, chosen.cells.shape[2], -1).flatten(1, 2)
        overlap = weights * (1 - box_giou(take_cells(predicted, cells), wanted))
        distances = weights * _compare_distances(
            take_cells(raw[..., : 4 * BINS], cells),
            wanted,
            points=detector.points[cells],
            strides=detector.strides[cells],
        )
        boxes_and_distances = BOX_WEIGHT * overlap.sum() + DISTANCE_WEIGHT * distances.sum()
        total = CLASS_WEIGHT * by_class / CELLS_AN_OBJECT + boxes_and_distances
        return total / (len(raw) * self._expected)

    def _find_seen(self, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return which cells (B, A) are outside all crowds."""
        points = self._detector.points[None, :, None]
        low, high = boxes[:, None, :, :2], boxes[:, None, :, 2:]
        inside = ((points > low) & (points < high)).all(dim=-1)  # (B, A, M)
        return ~(inside & (labels == CROWD)[:, None]).any(dim=2)


def _sum_quality_losses(
    logits: torch.Tensor,
    labels: torch.Tensor,
    cells: torch.Tensor,
    quality: torch.Tensor,
    seen: torch.Tensor | None,
) -> torch.Tensor:
    """Return the sum of the quality focal losses of all cells and classes.

    The target of a cell's class is the quality of its box, and 0 for all other classes.
    """
    num_classes = logits.shape[2]
    places = cells * num_classes + labels.clamp(min=0)[..., None]
    wanted = torch.zeros_like(logits).flatten(1)
    wanted.scatter_reduce_(1, places.flatten(1), quality.flatten(1), reduce="amax")
    wanted = wanted.view_as(logits)
    error = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    losses = (wanted - logits.detach().sigmoid()).square() * error
    if seen is not None:
        losses = losses * (seen[..., None] | (wanted > 0))
    return losses.sum()


def _compare_distances(
    logits: torch.Tensor, wanted: torch.Tensor, *, points: torch.Tensor, strides: torch.Tensor
) -> torch.Tensor:
    """Return the mean cross-entropy (B, N) of the two bins around each wanted distance.

    Args:
        logits: (B, N, 4 * BINS) of some cells.
        wanted: (B, N, 4), the boxes of their objects in pixels.
        points: (B, N, 2), their centres.
        strides: (B, N), their strides.
    """
    sides = torch.cat([points - wanted[..., :2], wanted[..., 2:] - points], dim=-1)
    distances = (sides / strides[..., None]).clamp(0, BINS - 1.01)  # (B, N, 4)
    below = distances.floor()
    above_share = distances - below
    chances = logits.reshape(*logits.shape[:-1], 4, BINS).log_softmax(dim=-1)
    place = below.long()[..., None]
    low = chances.gather(-1, place)[..., 0]
    high = chances.gather(-1, place + 1)[..., 0]
    return -((1 - above_share) * low + above_share * high).mean(dim=-1)
