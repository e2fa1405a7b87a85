"""Random views of images: where each picture of a batch gets its pixels and boxes from.

A picture shows a window of a plane on which its first image covers the unit square. In a mosaic,
three more images continue the plane to the right, below, and diagonally. A view is a mirrored and
scaled map of each axis, so boxes remain boxes.

Shapes: N positions of an epoch, B batch, T = 4 images of a picture, M objects, C channels, S side.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from redkiln.predict.boxes.scores import CROWD
from redkiln.tasks.object_detection import DetectionAugment
from worker.trainer.detection.objects import NOTHING

TILES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
"""Left upper corner of each image on the plane, in sides of an image."""
SIDES = 2
"""Images along each side of a mosaic's plane."""
SMALLEST_WINDOW = 0.4
"""Smallest side of a random crop, as a share of the image's."""
LARGEST_MOSAIC_WINDOW = 2.0
"""Side of a mosaic's window that shows all four images; the smallest is that of one image."""
LEAST_VISIBLE = 0.3
"""Share of a box that must remain visible."""
LEAST_SIDE = 2.0
"""Shortest side of a box in pixels that is worth learning."""


@dataclass(frozen=True)
class Views:
    """The views of an epoch's positions, or of one batch.

    Attributes:
        slope: (N, 2), side of the window in sides of an image, in x and y; negative if mirrored.
        start: (N, 2), the point of the plane at the window's corner that is shown at the left top.
        size: Side of the pictures in pixels.
    """

    slope: torch.Tensor
    start: torch.Tensor
    size: int

    def slice(self, start: int, stop: int) -> "Views":
        """Return the views of positions `start` to `stop`."""
        return Views(self.slope[start:stop], self.start[start:stop], self.size)

    def select(self, places: torch.Tensor) -> "Views":
        """Return the views of some positions."""
        return Views(self.slope[places], self.start[places], self.size)


def draw_views(
    augment: DetectionAugment,
    *,
    is_mosaic: torch.Tensor,
    size: int,
    generator: Callable[[str], torch.Generator],
) -> Views | None:
    """Draw the views of an epoch; None if every picture is its image, unchanged.

    Args:
        augment: Augmentation from the spec.
        is_mosaic: (N,) bool on the device, which positions show mosaics.
        size: Side of the pictures in pixels.
        generator: Builds the random generator for a purpose.
    """
    moves = augment.flip or augment.flip_vertical or augment.scale or augment.translate
    if not (moves or augment.crop or augment.mosaic):
        return None
    num = len(is_mosaic)
    draw = generator("views")
    draws = torch.rand(9, num, generator=draw, device=draw.device)
    zoom = torch.exp((2 * draws[0] - 1) * math.log1p(augment.scale))
    is_crop = draws[1] < augment.crop
    crop = SMALLEST_WINDOW + (1 - SMALLEST_WINDOW) * draws[2]
    mosaic = 1 + (LARGEST_MOSAIC_WINDOW - 1) * draws[2]
    window = torch.where(is_mosaic, mosaic, torch.where(is_crop, crop, 1 / zoom))
    plane = torch.where(is_mosaic, 2.0, 1.0)
    # Crops and mosaics lie inside the plane; other windows are shifted from its middle.
    inside = draws[3:5] * (plane - window)
    shifted = (1 - window) / 2 + augment.translate * (2 * draws[5:7] - 1)
    corner = torch.where(is_mosaic | is_crop, inside, shifted).T  # (N, 2)
    wanted = torch.tensor([augment.flip, augment.flip_vertical], device=draw.device)
    is_mirrored = (draws[7:9].T < 0.5) & wanted
    side = window[:, None].expand(-1, 2)
    slope, start = torch.where(is_mirrored, -side, side), torch.where(is_mirrored, side, 0.0)
    return Views(slope, corner + start, size)


def take_pixels(planes: torch.Tensor, views: Views) -> torch.Tensor:
    """Return what views show of their planes, (B, C, S, S) float32; black outside.

    Args:
        planes: (B, C, S, S), one image each, or (B, C, 2 S, 2 S), as `join_tiles` returns them.
        views: B views.
    """
    num, size = len(planes), views.size
    centres = (torch.arange(size, device=planes.device) + 0.5) / size
    shown = views.slope[:, :, None] * centres + views.start[:, :, None]
    at = shown * (2 * size / planes.shape[-1]) - 1  # (B, 2, S)
    # A plane for each axis: to write x and y alternately takes four times as long on a CPU.
    grid = at.new_empty(num, 2, size, size)
    grid[:, 0], grid[:, 1] = at[:, 0, None, :], at[:, 1, :, None]
    grid = grid.permute(0, 2, 3, 1)
    return functional.grid_sample(planes.float(), grid, padding_mode="zeros", align_corners=False)


def join_tiles(tiles: torch.Tensor) -> torch.Tensor:
    """Put the images (B, T, C, S, S) of mosaics side by side: (B, C, 2 S, 2 S)."""
    num, _, channels, size, _ = tiles.shape
    rows = tiles.view(num, SIDES, SIDES, channels, size, size).permute(0, 3, 1, 4, 2, 5)
    return rows.reshape(num, channels, SIDES * size, SIDES * size)


def move_targets(targets: torch.Tensor, tiles: torch.Tensor, views: Views) -> torch.Tensor:
    """Return targets as the views show them; what is hardly visible becomes nothing.

    Args:
        targets: (B, M, 5), label and box in pixels of each object's image.
        tiles: (B, M) int64, which image of its picture each is from.
        views: B views.
    """
    size = views.size
    corners = torch.tensor(TILES, device=targets.device)[tiles]  # (B, M, 2)
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
