"""Mosaics, and boxes that move with the views of their images.

In a mosaic three more images continue the plane of the first one to the right, below, and
diagonally.

Shapes: B batch, Q mosaics, T = 4 images of a picture, M objects, C channels, S side.
"""

import torch

from redkiln.predict.boxes.joined import NOTHING
from redkiln.predict.boxes.scores import CROWD
from worker.trainer.images.augment.views import Views
from worker.trainer.inputs import send

TILES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
"""Left upper corner of each image on the plane, in sides of an image."""
SIDES = 2
"""Images along each side of a mosaic's plane."""
LEAST_VISIBLE = 0.3
"""Share of a box that must remain visible."""
LEAST_SIDE = 2.0
"""Shortest side of a box in pixels that is worth learning."""


def join_tiles(first: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Put the images of mosaics side by side: (Q, C, 2 S, 2 S) float32.

    Args:
        first: (Q, C, S, S), the images at the left top.
        others: (Q, T - 1, C, S, S), the other images.
    """
    num, channels, size, _ = first.shape
    plane = torch.empty(num, channels, SIDES * size, SIDES * size, device=first.device)
    for (x, y), tile in zip(TILES, (first, *others.unbind(1)), strict=True):
        left, top = int(x) * size, int(y) * size
        plane[:, :, top : top + size, left : left + size] = tile
    return plane


def move_targets(targets: torch.Tensor, tiles: torch.Tensor, views: Views) -> torch.Tensor:
    """Return targets as the views show them; what is hardly visible becomes nothing.

    Args:
        targets: (B, M, 5), label and box in pixels of each object's image.
        tiles: (B, M) int64, which image of its picture each is from.
        views: B views.
    """
    size = views.size
    corners = send(torch.tensor(TILES), targets.device)[tiles]  # (B, M, 2)
    start, slope = views.start[:, None], views.slope[:, None]
    one = size * (targets[..., 1:3] / size + corners - start) / slope
    other = size * (targets[..., 3:5] / size + corners - start) / slope
    boxes = torch.cat([torch.minimum(one, other), torch.maximum(one, other)], dim=-1)
    visible = boxes.clamp(0, size)
    sides, whole = _sides_of(visible), _sides_of(boxes)
    share = sides.prod(dim=-1) / whole.prod(dim=-1).clamp(min=1e-6)
    labels = targets[..., 0]
    is_enough = (share >= LEAST_VISIBLE) | (labels == CROWD)
    is_seen = is_enough & (sides >= LEAST_SIDE).all(dim=-1)
    labels = torch.where(is_seen, labels, float(NOTHING))
    return torch.cat([labels[..., None], visible], dim=-1)


def _sides_of(boxes: torch.Tensor) -> torch.Tensor:
    return boxes[..., 2:] - boxes[..., :2]
