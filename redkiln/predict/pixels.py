"""Turns one image of any kind into a square of uint8 pixels.

The manifest of the exported model lists the same steps, so that its users can repeat them.

Shapes: C channels, S side in pixels.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps
from pydantic import BaseModel

RESAMPLING = "bilinear"
"""Pillow's BILINEAR, which averages over the covered area when it shrinks an image."""

BLACK = 0
_UNREADABLE_MODES = {"F": "floating-point pixels", "LAB": "pixels in L*a*b*"}
"""Pillow's modes whose values have no fixed range in 8 bits."""


class PixelFormat(BaseModel):
    """The square that every image is brought to.

    Attributes:
        size: Side in pixels.
        channels: 1 for grey, 3 for RGB.
        resize: How images of other shapes become square.
    """

    size: int
    channels: Literal[1, 3]
    resize: Literal["stretch", "crop", "pad"]

    @property
    def mode(self) -> Literal["L", "RGB"]:
        """Pillow's name for the pixel type."""
        return "L" if self.channels == 1 else "RGB"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image's planes, (C, S, S)."""
        return self.channels, self.size, self.size

    @property
    def num_bytes(self) -> int:
        """Size of one image."""
        return self.channels * self.size**2


def to_pixels(image: Image.Image, pixel_format: PixelFormat) -> NDArray[np.uint8]:
    """Decode an image, turn it upright, convert and resize it.

    Returns:
        (S, S, C) uint8.

    Raises:
        OSError: the image's data are broken.
    """
    size = (pixel_format.size, pixel_format.size)
    # A JPEG is decoded at the nearest reduced size that still has twice the pixels needed.
    image.draft(pixel_format.mode, (2 * pixel_format.size, 2 * pixel_format.size))
    image = to_upright(image, pixel_format.mode)
    if image.size != size:
        image = _resize(image, size, pixel_format.resize)
    return np.asarray(image, dtype=np.uint8).reshape(*size, pixel_format.channels)


def explain_unreadable(image: Image.Image) -> str | None:
    """Return why an image's pixels cannot be used, as a predicate, and what to do; else None."""
    what = _UNREADABLE_MODES.get(image.mode)
    return what and f"has {what}; convert it to RGB or grey with 8 bits"


def to_upright(image: Image.Image, mode: Literal["L", "RGB"]) -> Image.Image:
    """Return an image as models and people see it: upright, with 8 bits a channel."""
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        image = ImageOps.exif_transpose(image)
    return to_mode(image, mode)


def to_mode(image: Image.Image, mode: Literal["L", "RGB"]) -> Image.Image:
    """Return an image with 8 bits a channel: of deeper grey the upper byte, over black."""
    if image.mode.startswith("I"):
        # Pillow clips 16-bit grey at 255; the upper byte keeps the picture.
        deep = np.asarray(image)
        if image.mode == "I":
            deep = deep.clip(0, 65535)
        image = Image.fromarray((deep >> 8).astype(np.uint8))
    if image.mode in ("P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("RGBA", "LA", "La", "RGBa"):
        # Transparent pixels become black, as padding does.
        layer = image.convert("RGBA")
        black = Image.new("RGBA", layer.size, (0, 0, 0, 255))
        image = Image.alpha_composite(black, layer)
    return image if image.mode == mode else image.convert(mode)


def _resize(
    image: Image.Image, size: tuple[int, int], how: Literal["stretch", "crop", "pad"]
) -> Image.Image:
    bilinear = Image.Resampling.BILINEAR
    match how:
        case "stretch":
            return image.resize(size, bilinear)
        case "crop":
            return ImageOps.fit(image, size, bilinear)
        case "pad":
            return ImageOps.pad(image, size, bilinear, color=BLACK)
