"""Decides which cells are responsible for which object.

Candidates of an object are the 5x5 cells around its centre in each level, as far as their centres
are inside its box. Of these, the cells that already predict the object best (its class and its box)
are chosen. A cell that several objects choose belongs to the one that it overlaps most. The cost
does not depend on the number of cells, so thousands of objects fit into memory.

Shapes: B batch, M objects of an image, A cells, K classes, N candidates of an object, P choices.

Source: Feng et al., TOOD, arXiv:2108.07755, section 3.2 (alignment, and the targets made from it);
Ge et al., YOLOX, arXiv:2107.08430 (candidates around the centre).
"""

from dataclasses import dataclass

import torch

from worker.trainer.dense.pyramid import STRIDES
from worker.trainer.detection.boxes import box_iou

REACH = 2
"""Cells around the centre in each direction that are candidates."""
CHOICES = 10
"""Most cells of an object."""
SCORE_POWER, IOU_POWER = 0.5, 4.0
"""Weights of class and box in the alignment."""
SMALLEST_IOU, SMALLEST_ALIGNMENT = 1e-4, 1e-20
"""Lower bounds, so that cells whose boxes do not touch the object can be chosen, too."""


@dataclass(frozen=True)
class Assignment:
    """The cells of each object.

    Attributes:
        cells: (B, M, P) int64, cells of each object.
        quality: (B, M, P) float32, how well each cell should say that it fits: at most 1, and 0 for
            a cell that is not chosen.
        weights: (B, M, P) float32, how much each cell counts for the object's box: their sum is 1,
            or 0 if the object has no cell.
    """

    cells: torch.Tensor
    quality: torch.Tensor
    weights: torch.Tensor


def assign_cells(
    boxes: torch.Tensor,
    labels: torch.Tensor,
    *,
    predicted: torch.Tensor,
    scores: torch.Tensor,
    points: torch.Tensor,
    image_size: int,
) -> Assignment:
    """Choose the cells of each object of a batch.

    Args:
        boxes: (B, M, 4), the objects in pixels.
        labels: (B, M) int64, their classes; negative in places without an object.
        predicted: (B, A, 4), the predicted boxes in pixels.
        scores: (B, A, K), the predicted scores.
        points: (A, 2), the centres of the cells in pixels.
        image_size: Side of the image in pixels.
    """
    cells, may_be_chosen = find_candidates(boxes, points=points, image_size=image_size)
    may_be_chosen &= (labels >= 0)[..., None]
    iou = box_iou(take_cells(predicted, cells), boxes[:, :, None, :])  # (B, M, N)
    pairs = cells * scores.shape[2] + labels.clamp(min=0)[..., None]
    score = scores.flatten(1).gather(1, pairs.flatten(1)).view_as(pairs)
    alignment = (score**SCORE_POWER * iou.clamp(min=SMALLEST_IOU) ** IOU_POWER).masked_fill(
        ~may_be_chosen, 0.0
    )
    alignment, order = alignment.topk(CHOICES, dim=2)  # (B, M, P)
    cells, iou = cells.gather(2, order), iou.gather(2, order)
    is_mine = (alignment > 0) & _overlaps_most(cells, iou, alignment > 0, num_cells=len(points))
    alignment, iou = alignment * is_mine, iou * is_mine
    best = alignment.amax(dim=2, keepdim=True).clamp(min=SMALLEST_ALIGNMENT)
    share = alignment / best
    weights = share / share.sum(dim=2, keepdim=True).clamp(min=1.0)
    return Assignment(cells, share * iou.amax(dim=2, keepdim=True), weights)


def find_candidates(
    boxes: torch.Tensor, *, points: torch.Tensor, image_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the candidates of each object (B, M, N), and whether each may be chosen.

    The cell at the centre may always be chosen, because a small box can lie between the centres.
    """
    steps = torch.arange(2 * REACH + 1, device=boxes.device) - REACH
    down, right = (part.flatten() for part in torch.meshgrid(steps, steps, indexing="ij"))
    centres = (boxes[..., :2] + boxes[..., 2:]) / 2
    found, inside, first = [], [], 0
    for stride in STRIDES:
        side = image_size // stride
        middle = (centres / stride).long().clamp(0, side - 1)
        columns, rows = middle[..., :1] + right, middle[..., 1:] + down  # (B, M, 25)
        is_inside = (columns >= 0) & (columns < side) & (rows >= 0) & (rows < side)
        inside.append(is_inside)
        found.append(first + rows.clamp(0, side - 1) * side + columns.clamp(0, side - 1))
        first += side * side
    cells, is_inside = torch.cat(found, dim=2), torch.cat(inside, dim=2)
    at = points[cells]  # (B, M, N, 2)
    in_box = ((at > boxes[:, :, None, :2]) & (at < boxes[:, :, None, 2:])).all(dim=-1)
    is_middle = ((down == 0) & (right == 0)).repeat(len(STRIDES))
    return cells, is_inside & (in_box | is_middle)


def _overlaps_most(
    cells: torch.Tensor, iou: torch.Tensor, is_chosen: torch.Tensor, *, num_cells: int
) -> torch.Tensor:
    """Return whether no other object that chose a cell overlaps more with its prediction."""
    claims = iou.masked_fill(~is_chosen, -1.0).flatten(1)
    most = claims.new_full((len(claims), num_cells), -1.0)
    most.scatter_reduce_(1, cells.flatten(1), claims, reduce="amax")
    return (claims >= most.gather(1, cells.flatten(1))).view_as(cells)


def take_cells(values: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Return the rows (B, ..., D) of values (B, A, D) for cells (B, ...)."""
    wide = cells.flatten(1)[..., None].expand(-1, -1, values.shape[2])
    return values.gather(1, wide).view(*cells.shape, -1)
