"""Draws masks over images, in the colours of the classes."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.annotations import IGNORED, class_colour
from redkiln.predict.masks.coding import Mask
from redkiln.predict.pixels import to_upright

STRENGTH = 0.55
"""Share of a class's colour in a pixel."""


def build_palette(num_classes: int) -> NDArray[np.uint8]:
    """Return the colour of each label, (256, 3); ignored pixels are grey."""
    palette = np.full((256, 3), 128, dtype=np.uint8)
    palette[:num_classes] = [class_colour(label) for label in range(num_classes)]
    return palette


def overlay(pixels: NDArray[np.uint8], mask: Mask, *, num_classes: int) -> NDArray[np.uint8]:
    """Return an image (H, W, 1 or 3) with its mask as (H, W, 3).

    The background, which is the class with label 0, and ignored pixels keep their colours.
    """
    image = np.broadcast_to(pixels, (*pixels.shape[:2], 3)).astype(np.float32)
    colours = build_palette(num_classes)[mask]
    is_drawn = ((mask != 0) & (mask != IGNORED))[..., None]
    mixed = np.where(is_drawn, (1 - STRENGTH) * image + STRENGTH * colours, image)
    drawn: NDArray[np.uint8] = mixed.round().astype(np.uint8)
    return drawn


def draw_mask(source: Path, mask: Mask, target: Path, classes: Sequence[str]) -> None:
    """Write a PNG of an image with the mask of the upright image over it."""
    with Image.open(source) as opened:
        image = to_upright(opened, "RGB")
    Image.fromarray(overlay(np.asarray(image), mask, num_classes=len(classes))).save(target)


def write_png(mask: Mask, classes: Sequence[str]) -> bytes:
    """Return a mask as an indexed PNG: each pixel is its label, in the colour of its class."""
    height, width = mask.shape
    indexed = Image.frombytes("P", (width, height), np.ascontiguousarray(mask).tobytes())
    indexed.putpalette(build_palette(len(classes)).reshape(-1).tolist())
    content = io.BytesIO()
    indexed.save(content, format="PNG")
    return content.getvalue()
