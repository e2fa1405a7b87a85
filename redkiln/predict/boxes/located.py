"""Images as inputs of a detector or segmenter, with what puts its answers back into them.

Shapes: B batch, C channels, S side in pixels, M reported boxes of an image.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from redkiln.predict.boxes.scores import Detections
from redkiln.predict.fitting import Boxes, find_fit
from redkiln.predict.images import ImagePreparation, feed_pixels
from redkiln.predict.instances.regions import enlarge
from redkiln.predict.items import Arrays
from redkiln.predict.masks.fitting import part_to_square, to_image, to_square
from redkiln.predict.pixels import to_pixels

TURNED = frozenset((5, 6, 7, 8))
"""EXIF orientations that exchange width and height."""


@dataclass(frozen=True)
class LocatedPixels:
    """An image as the model sees it: (S, S, C) uint8, and (width, height) of the upright image."""

    pixels: NDArray[np.uint8]
    size: tuple[int, int]


class LocatedPreparation(ImagePreparation):
    """Reads images as `ImagePreparation` does, and keeps their sizes."""

    def __init__(self, preprocessing: dict[str, Any]) -> None:
        super().__init__(preprocessing)
        self._resize: Literal["stretch", "pad"] = preprocessing["resize"]

    def feed(self, samples: list[Any]) -> Arrays:
        """Return located images as the model's input."""
        return feed_pixels(np.stack([sample.pixels for sample in samples]))

    def locate(
        self, found: Detections, sample: LocatedPixels
    ) -> tuple[Detections, NDArray[np.bool_]]:
        """Return boxes in pixels of the upright image, and which (M,) are not outside of it."""
        fit = find_fit(sample.size, self._format.size, self._resize)
        moved = fit.to_image(found.boxes.astype(np.float64))
        inside = moved.clip(0, np.tile(sample.size, 2))
        is_there = np.asarray((inside[:, 2:] > inside[:, :2]).all(axis=1))
        kept = Detections(inside[is_there], found.scores[is_there], found.labels[is_there])
        return kept, is_there

    def place(self, boxes: Boxes, sample: LocatedPixels) -> Boxes:
        """Return boxes (M, 4) of the upright image as boxes of the square."""
        return find_fit(sample.size, self._format.size, self._resize).to_square(boxes)

    def place_mask(self, mask: NDArray[np.uint8], sample: LocatedPixels) -> NDArray[np.uint8]:
        """Return a mask of the upright image as a mask (S, S) of the square."""
        return to_square(mask, sample.size, self._format.size, self._resize)

    def place_part(
        self, mask: NDArray[np.uint8], box: tuple[int, int, int, int], sample: LocatedPixels
    ) -> NDArray[np.uint8]:
        """Return the mask of a part of the upright image as a mask (S, S) of the square."""
        return part_to_square(mask, box, sample.size, self._format.size, self._resize)

    def fit_mask(self, mask: NDArray[np.uint8], sample: LocatedPixels) -> NDArray[np.uint8]:
        """Return a mask (S, S) of the square as a mask (H, W) of the upright image."""
        return to_image(mask, sample.size, self._resize)

    def fit_objects(
        self, masks: NDArray[np.uint8], sample: LocatedPixels
    ) -> list[NDArray[np.uint8]]:
        """Return masks (M, T, T) of the whole square, 255 for a certain pixel, in the image.

        Each becomes (H, W) of 0 and 1 for the upright image.
        """
        side = self._format.size
        square = enlarge(masks, (side, side))
        return [to_image(mask, sample.size, self._resize) for mask in square]

    def _finish(self, image: Image.Image) -> LocatedPixels:
        size = find_upright_size(image)  # before the image is decoded at a reduced size
        return LocatedPixels(to_pixels(image, self._format), size)


def find_upright_size(image: Image.Image) -> tuple[int, int]:
    """Return width and height of an image after its EXIF orientation is applied."""
    width, height = image.size
    is_turned = image.getexif().get(ExifTags.Base.Orientation, 1) in TURNED
    return (height, width) if is_turned else (width, height)
