"""Masks as text in an index: one byte for each pixel, row by row, packed by zlib, as base64.

Shapes: H and W height and width of the mask.
"""

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.uint8]
"""(H, W), the label of each pixel, or `redkiln.annotations.IGNORED`."""


def pack_mask(mask: Mask) -> str:
    """Return a mask as text."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(mask).tobytes(), 6)).decode()


def unpack_mask(text: str, size: tuple[int, int]) -> Mask:
    """Return the mask that a text holds.

    Args:
        text: The text.
        size: (width, height) of the mask.

    Raises:
        ValueError: The text is not a mask of this size.
    """
    width, height = size
    try:
        opened = zlib.decompressobj()
        content = opened.decompress(base64.b64decode(text, validate=True), width * height)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the mask cannot be read: {error}") from error
    if len(content) != width * height or opened.unconsumed_tail:
        raise ValueError(f"the mask does not have {width} x {height} pixels")
    return np.frombuffer(content, dtype=np.uint8).reshape(height, width)
