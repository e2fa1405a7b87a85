"""Moves masks between an image and the square that a model sees, by the nearest pixel.

Shapes: H and W height and width, S side of the square in pixels.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.fitting import find_fit
from redkiln.predict.masks.coding import Mask


def to_square(
    mask: Mask, size: tuple[int, int], side: int, resize: Literal["stretch", "pad"]
) -> Mask:
    """Return a mask in the square (S, S); what is not the image is ignored.

    Args:
        mask: (H, W), which can have fewer pixels than the image.
        size: (width, height) of the upright image in pixels.
        side: Side of the square in pixels.
        resize: How the image is fitted to the square.
    """
    return part_to_square(mask, (0, 0, *size), size, side, resize, beyond=IGNORED)


def part_to_square(
    mask: Mask,
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    side: int,
    resize: Literal["stretch", "pad"],
    *,
    beyond: int = 0,
) -> Mask:
    """Return the mask of a part of an image in the square (S, S).

    Args:
        mask: (H, W), which can have fewer pixels than the part.
        box: Left, top, right and bottom of the part in pixels of the upright image.
        size: (width, height) of the upright image in pixels.
        side: Side of the square in pixels.
        resize: How the image is fitted to the square.
        beyond: Value of the pixels around the part.
    """
    fit = find_fit(size, side, resize)
    square: Mask = np.full((side, side), beyond, dtype=np.uint8)
    places, spans = [], []
    for axis, length in ((1, mask.shape[0]), (0, mask.shape[1])):
        low, high = box[axis], box[axis + 2]
        at = ((np.arange(side) + 0.5 - fit.offset[axis]) / fit.scale[axis] - low) / (high - low)
        shown = np.flatnonzero((at >= 0) & (at < 1))
        spans.append(shown)
        places.append((at[shown] * length).astype(np.int64).clip(0, length - 1))
    square[spans[0][:, None], spans[1]] = mask[places[0][:, None], places[1]]
    return square


def to_image(
    square: NDArray[np.uint8],
    size: tuple[int, int],
    resize: Literal["stretch", "pad"],
) -> Mask:
    """Return a mask (S, S) of the square as a mask (H, W) of the image.

    Args:
        square: The mask that a model returns.
        size: (width, height) of the upright image in pixels.
        resize: How the image was fitted to the square.
    """
    side = len(square)
    fit = find_fit(size, side, resize)
    places = []
    for axis in (1, 0):
        at = (np.arange(size[axis]) + 0.5) * fit.scale[axis] + fit.offset[axis]
        places.append(at.astype(np.int64).clip(0, side - 1))
    mask: Mask = square[places[0][:, None], places[1]]
    return mask
