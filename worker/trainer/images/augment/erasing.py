"""Random erasing: a black box in some of the images.

Shapes: N positions in an epoch, B batch, C channels, S side in pixels.

Source: Zhong et al., "Random Erasing Data Augmentation", arXiv:1708.04896.
"""

import math

import torch

from redkiln.tasks.image_classification import Augment

AREA = (0.02, 0.33)
"""Smallest and largest share of an image that is erased; from the paper."""
ASPECT = 3.3
"""Largest ratio of a box's sides; from the paper."""


def draw_boxes(augment: Augment, *, num: int, generator: torch.Generator) -> torch.Tensor | None:
    """Draw the boxes of `num` positions, (N, 4) float32: left, top, right, bottom in [0, 1].

    A position without a box gets an empty one.

    Returns:
        None if nothing is erased.
    """
    if not augment.erase:
        return None
    draws = torch.rand(5, num, generator=generator, device=generator.device)
    area = AREA[0] + (AREA[1] - AREA[0]) * draws[0]
    aspect = torch.exp((2 * draws[1] - 1) * math.log(ASPECT))
    # Clamp a long box to the image's side.
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    left, top = draws[2] * (1 - width), draws[3] * (1 - height)
    is_erased = draws[4] < augment.erase
    boxes = torch.stack([left, top, left + width, top + height], dim=1)
    return torch.where(is_erased[:, None], boxes, torch.zeros_like(boxes))


def erase_boxes(images: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Paint each image's box black, in place.

    Args:
        images: (B, C, S, S) float32.
        boxes: (B, 4) float32, the boxes of the B positions.
    """
    size = images.shape[-1]
    centres = (torch.arange(size, device=images.device) + 0.5) / size
    left, top, right, bottom = boxes[:, :, None].unbind(1)  # (B, 1) each
    in_columns = (centres >= left) & (centres < right)  # (B, S)
    in_rows = (centres >= top) & (centres < bottom)
    inside = in_rows[:, None, :, None] & in_columns[:, None, None, :]  # (B, 1, S, S)
    return images.masked_fill_(inside, 0.0)
