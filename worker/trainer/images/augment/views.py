"""Random views of images: where each picture of a batch gets its pixels from.

A picture shows a window of a plane on which its image covers the unit square. A view is a mirrored
and scaled map of each axis, so boxes remain boxes. A mosaic's plane is larger: three more images
continue it (`worker.trainer.detection.views`).

Shapes: N positions of an epoch, B batch, C channels, S side.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from redkiln.spec.image_training import ViewChanges
from worker.trainer.inputs import send

SMALLEST_WINDOW = 0.4
"""Smallest side of a random crop, as a share of the image's."""
LARGEST_MOSAIC_WINDOW = 2.0
"""Side of a mosaic's window that shows all four images; the smallest is that of one image."""


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
        slope, start = (some.index_select(0, places) for some in (self.slope, self.start))
        return Views(slope, start, self.size)

    def to(self, device: torch.device) -> "Views":
        """Return the views on a device."""
        return Views(send(self.slope, device), send(self.start, device), self.size)


def draw_views(
    augment: ViewChanges,
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
    if not (moves or augment.crop or bool(is_mosaic.any())):
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
        planes: (B, C, S, S), one image each, or (B, C, 2 S, 2 S) for a mosaic.
        views: B views.
    """
    grid = _find_places(planes, views)
    return functional.grid_sample(planes.float(), grid, padding_mode="zeros", align_corners=False)


def take_labels(masks: torch.Tensor, views: Views, *, outside: int) -> torch.Tensor:
    """Return what views show of masks (B, S, S) uint8: the nearest label, and `outside` beyond.

    It looks at the same places as `take_pixels`.
    """
    # Places beyond the mask count as 0, so labels are counted from `outside`.
    shifted = masks[:, None].float() - outside
    grid = _find_places(shifted, views)
    taken = functional.grid_sample(
        shifted, grid, mode="nearest", padding_mode="zeros", align_corners=False
    )
    return (taken[:, 0] + outside).to(torch.uint8)


def _find_places(planes: torch.Tensor, views: Views) -> torch.Tensor:
    """Return where each pixel of the views is on its plane, (B, S, S, 2) from -1 to 1."""
    num, size = len(planes), views.size
    # From 0 to 1 on an image is from 0 to `scale` on a plane from -1 to 1, less 1.
    scale = 2 * size / planes.shape[-1]
    centres = torch.arange(0.5 * scale / size, scale, scale / size, device=planes.device)
    start = views.start * scale - 1
    at = torch.addcmul(start[:, :, None], views.slope[:, :, None], centres)  # (B, 2, S)
    # A plane for each axis: to write x and y alternately takes four times as long on a CPU.
    grid = at.new_empty(num, 2, size, size)
    grid[:, 0], grid[:, 1] = at[:, 0, None, :], at[:, 1, :, None]
    return grid.permute(0, 2, 3, 1)
