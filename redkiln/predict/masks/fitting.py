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
    fit = find_fit(size, side, resize)
    centres = np.arange(side) + 0.5
    places, inside = [], []
    for axis, length in ((1, mask.shape[0]), (0, mask.shape[1])):
        share = (centres - fit.offset[axis]) / (fit.scale[axis] * size[axis])
        inside.append((share >= 0) & (share < 1))
        places.append((share * length).astype(np.int64).clip(0, length - 1))
    square: Mask = mask[places[0][:, None], places[1]]
    square[~(inside[0][:, None] & inside[1])] = IGNORED
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
