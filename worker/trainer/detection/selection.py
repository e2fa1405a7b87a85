"""Selects the boxes that a detector reports: the best of each object, and none of its neighbours.

Shapes: B batch, A cells, K classes, N candidates, M reported boxes.
"""

import torch

from worker.trainer.detection.boxes import pairwise_iou

MOST_FOUND = 100
"""Most boxes that are reported for an image; COCO's metrics count as many."""
CANDIDATES = 400
"""Best pairs of a cell and a class that are compared with one another."""
OVERLAP = 0.6
"""Boxes of one class with a larger IoU are the same object."""
NO_LABEL = -1
USUAL_THRESHOLD = 0.4
"""Smallest score of a box that is shown to people. The score says how well the box fits, too, so
right boxes rarely have more than 0.9."""
SCORED_THRESHOLD = 0.001
"""Smallest score of a box that counts for the average precision."""

Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Boxes (B, M, 4), scores (B, M) and labels (B, M) int64, the best first."""


def select_boxes(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    *,
    threshold: float | torch.Tensor,
    most: int = MOST_FOUND,
    is_suppressed: bool = True,
) -> Found:
    """Return the best boxes of a batch, by default after non-maximum suppression in each class.

    Args:
        boxes: (B, A, 4) in pixels; further columns are kept with each box.
        scores: (B, A, K) in [0, 1].
        threshold: Smallest score that is reported.
        most: Number of boxes that are reported, M; missing ones have score 0 and label -1.
        is_suppressed: Whether a box that overlaps a better one of its class is dropped.
    """
    num_classes = scores.shape[2]
    num = min(CANDIDATES, scores.shape[1] * num_classes)
    best, places = scores.flatten(1).topk(num)  # (B, N), falling
    labels = places % num_classes
    width = boxes.shape[2]
    cells = (places // num_classes)[..., None].expand(-1, -1, width)
    candidates = boxes.gather(1, cells)
    is_kept = best >= threshold
    if is_suppressed:
        is_kept = torch.logical_and(is_kept, suppress(candidates, labels, best, num_classes))
    best = torch.where(is_kept, best, torch.zeros_like(best))
    kept, order = best.topk(min(most, num))
    chosen = candidates.gather(1, order[..., None].expand(-1, -1, width))
    found = torch.where(kept > 0, labels.gather(1, order), NO_LABEL)
    chosen = chosen * (found >= 0)[..., None]
    missing = most - kept.shape[1]
    if not missing:
        return chosen, kept, found
    pad = torch.nn.functional.pad
    return (
        pad(chosen, (0, 0, 0, missing)),
        pad(kept, (0, missing)),
        pad(found, (0, missing), value=NO_LABEL),
    )


@torch.library.custom_op("redkiln::suppress", mutates_args=())
def suppress(
    boxes: torch.Tensor,
    labels: torch.Tensor,
    scores: torch.Tensor,  # noqa: ARG001 - the operator of ONNX needs it
    num_classes: int,  # noqa: ARG001
) -> torch.Tensor:
    """Return which boxes remain, (B, N) bool. It is one operator, which an export can translate.

    Args:
        boxes: (B, N, 4), the best first.
        labels: (B, N) int64.
        scores: (B, N), falling.
        num_classes: Number of classes.
    """
    is_same = labels[:, :, None] == labels[:, None, :]
    overlaps = (pairwise_iou(boxes, boxes) > OVERLAP) & is_same
    rivals = overlaps.tril(diagonal=-1)  # [i, j]: j is better than i, and both are one object
    is_kept = torch.ones_like(labels, dtype=torch.bool)
    # Each round settles at least the best box that was still open, and usually nearly all of them.
    while True:
        settled = ~(rivals & is_kept[:, None, :]).any(dim=2)
        if torch.equal(settled, is_kept):
            return is_kept
        is_kept = settled


@suppress.register_fake
def _suppress_shape(
    boxes: torch.Tensor,  # noqa: ARG001
    labels: torch.Tensor,
    scores: torch.Tensor,  # noqa: ARG001
    num_classes: int,  # noqa: ARG001
) -> torch.Tensor:
    return torch.empty_like(labels, dtype=torch.bool)
