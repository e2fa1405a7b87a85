"""Mosaics, and boxes that move with the views of their images.

In a mosaic three more images continue the plane of the first one to the right, below, and
diagonally. Pictures are made on the device. Boxes are few numbers, so they are moved on the host,
with numpy.

Shapes: B batch, Q mosaics, T = 4 images of a picture, M objects, C channels, S side.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import NOTHING
from redkiln.predict.boxes.scores import CROWD
from worker.trainer.images.augment.views import Views

TILES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
"""Left upper corner of each image on the plane, in sides of an image: row by row."""
SIDES = 2
"""Images along each side of a mosaic's plane."""
LEAST_VISIBLE = 0.3
"""Share of a box that must remain visible."""
LEAST_SIDE = 2.0
"""Shortest side of a box in pixels that is worth learning."""


def join_tiles(tiles: torch.Tensor) -> torch.Tensor:
    """Put the images of mosaics side by side: (Q, C, 2 S, 2 S) float32.

    Args:
        tiles: (Q, T, C, S, S) in the order of `TILES`.
    """
    num, _, channels, size, _ = tiles.shape
    plane = torch.empty(num, channels, SIDES, size, SIDES, size, device=tiles.device)
    in_rows = tiles.view(num, SIDES, SIDES, channels, size, size)
    return plane.copy_(in_rows.permute(0, 3, 1, 4, 2, 5)).view(num, channels, SIDES * size, -1)


def move_targets(
    targets: NDArray[np.float32], tiles: NDArray[np.int64], views: Views
) -> NDArray[np.float32]:
    """Return targets as the views show them; what is hardly visible becomes nothing.

    Args:
        targets: (B, M, 5), label and box in pixels of each object's image.
        tiles: (B, M), which image of its picture each is from.
        views: B views on the host.
    """
    size = np.float32(views.size)
    corners = size * np.array(TILES, dtype=np.float32)[tiles]  # (B, M, 2)
    start = size * views.start.numpy()[:, None]  # (B, 1, 2)
    slope = views.slope.numpy()[:, None]
    moved = corners - start
    one = (targets[..., 1:3] + moved) / slope
    other = (targets[..., 3:5] + moved) / slope
    boxes = np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=-1)
    visible = boxes.clip(0, size)
    width, height = _sides_of(visible)
    whole_width, whole_height = _sides_of(boxes)
    is_enough = width * height >= LEAST_VISIBLE * (whole_width * whole_height).clip(min=1e-6)
    labels = targets[..., 0]
    is_seen = (is_enough | (labels == CROWD)) & (np.minimum(width, height) >= LEAST_SIDE)
    shown = np.where(is_seen, labels, np.float32(NOTHING))
    return np.concatenate([shown[..., None], visible], axis=-1)


def _sides_of(boxes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
