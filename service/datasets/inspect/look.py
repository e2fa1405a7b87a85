"""How an image looks: a digest of its pixels, and two small grey pictures."""

import hashlib
from dataclasses import dataclass

from PIL import Image

WIDTH, HEIGHT = 9, 8
"""A row of 9 pixels has 8 differences."""
FINE_SIDE = 16
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Look:
    """What is compared of two images.

    Attributes:
        digest: Digest of mode, size and pixels; equal images have the same.
        small: (8 x 9) grey pixels, one byte each.
        fine: (16 x 16) grey pixels, one byte each.
    """

    digest: bytes
    small: bytes
    fine: bytes


def take_look(image: Image.Image) -> Look:
    """Return the look of a decoded image."""
    digest = hashlib.blake2b(f"{image.mode} {image.size}".encode(), digest_size=_DIGEST_BYTES)
    if image.mode == "P":
        digest.update(bytes(image.getpalette() or ()))
    digest.update(image.tobytes())
    grey = image.convert("L")
    small = grey.resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    fine = grey.resize((FINE_SIDE, FINE_SIDE), Image.Resampling.BOX)
    return Look(digest.digest(), small.tobytes(), fine.tobytes())
