"""Where an image is in the square that a model sees, so that boxes can be moved between them.

Boxes are left, top, right, bottom in pixels; pixel (0, 0) covers the square from (0, 0) to (1, 1).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The place of an upright image in its square.

    Attributes:
        scale: Pixels of the square for one pixel of the image, in x and in y.
        offset: Left and upper edge of the image in the square, in pixels.
    """

    scale: tuple[float, float]
    offset: tuple[float, float]

    def to_square(self, boxes: Boxes) -> Boxes:
        """Turn boxes (N, 4) of the image into boxes of the square."""
        moved: Boxes = boxes * np.tile(self.scale, 2) + np.tile(self.offset, 2)
        return moved

    def to_image(self, boxes: Boxes) -> Boxes:
        """Turn boxes (N, 4) of the square into boxes of the image; they may extend beyond it."""
        moved: Boxes = (boxes - np.tile(self.offset, 2)) / np.tile(self.scale, 2)
        return moved


def find_fit(size: tuple[int, int], side: int, resize: Literal["stretch", "pad"] = "pad") -> Fit:
    """Return where `to_pixels` puts an image of a size (width, height) in a square of a side.

    With `pad` the image keeps its proportions and is in the middle, with black around it.
    """
    width, height = size
    if resize == "stretch" or width == height:
        return Fit((side / width, side / height), (0.0, 0.0))
    # As ImageOps.pad rounds. Of extreme proportions no pixel remains; the scale must not be 0.
    if width > height:
        inner = max(1, round(height / width * side))
        return Fit((side / width, inner / height), (0.0, float(round((side - inner) * 0.5))))
    inner = max(1, round(width / height * side))
    return Fit((inner / width, side / height), (float(round((side - inner) * 0.5)), 0.0))
