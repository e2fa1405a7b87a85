"""How an image looks: a digest of its pixels, and a small grey picture."""

import hashlib
from dataclasses import dataclass

from PIL import Image

WIDTH, HEIGHT = 9, 8
"""A row of 9 pixels has 8 differences."""
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Look:
    """What is compared of two images.

    Attributes:
        digest: Digest of mode, size and pixels; equal images have the same.
        small: (8 x 9) grey pixels, one byte each.
    """

    digest: bytes
    small: bytes


def take_look(image: Image.Image) -> Look:
    """Return the look of a decoded image."""
    digest = hashlib.blake2b(f"{image.mode} {image.size}".encode(), digest_size=_DIGEST_BYTES)
    if image.mode == "P":
        digest.update(bytes(image.getpalette() or ()))
    digest.update(image.tobytes())
    small = image.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return Look(digest.digest(), small.tobytes())
