"""How an image looks: a digest of its pixels, and a small grey picture.

Shapes: N images of H x W pixels with C channels, 1 or 3.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

from redkiln.predict.pixels import to_mode

SIDE = 16
_DIGEST_BYTES = 16
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""Share of red, green and blue in grey. Source: ITU-R BT.601, which Pillow uses, too."""
_PIXELS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Look:
    """What is compared of two images.

    Attributes:
        digest: Digest of mode, size and pixels; equal images have the same.
        picture: (16 x 16) grey pixels, one byte each.
        peak: The largest value of grey with 16 bits; None for other images.
    """

    digest: bytes
    picture: bytes
    peak: int | None = None


def take_look(image: Image.Image) -> Look:
    """Return the look of a decoded image.

    A filter that blends areas makes the picture nearly independent of the image's size; means of
    areas would jump where a border of two areas moves past the middle of a pixel.
    """
    digest = hashlib.blake2b(f"{image.mode} {image.size}".encode(), digest_size=_DIGEST_BYTES)
    if image.mode == "P":
        digest.update(bytes(image.getpalette() or ()))
    digest.update(image.tobytes())
    is_deep = image.mode.startswith("I")
    # Pillow would clip deep grey.
    grey = to_mode(image, "L") if is_deep else image.convert("L")
    picture = grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    peak = int(np.asarray(image).max()) if is_deep else None
    return Look(digest.digest(), picture.tobytes(), peak)


@dataclass(frozen=True)
class ArrayLook:
    """What is compared of the images in an array.

    Attributes:
        digests: (N,) int64 digest of the pixels; equal images have the same.
        pictures: (N, 256) uint8 grey pixels.
    """

    digests: np.ndarray
    pictures: np.ndarray


def shrink_array(images: np.ndarray) -> np.ndarray:
    """Return the small pictures (N, 256) of images (N, H, W, C) uint8, as `Look` has them."""
    num, height, width, channels = images.shape
    at_once = max(1, _PIXELS_AT_ONCE // (height * width))
    found = np.empty((num, SIDE * SIDE), np.uint8)
    for start in range(0, num, at_once):
        part = images[start : start + at_once].astype(np.float32)
        grey = part[..., 0] if channels == 1 else part @ _GREY
        pictures = _blend(height) @ grey @ _blend(width).T
        found[start : start + at_once] = np.rint(pictures).reshape(len(part), -1)
    return found


def _blend(length: int) -> np.ndarray:
    """Return (16, length) float32 shares of pixels in each pixel of a small picture.

    Shares fall evenly from the middle of an area to the middle of the next one, as in Pillow's
    bilinear filter.
    """
    scale = length / SIDE
    middles = (np.arange(SIDE)[:, None] + 0.5) * scale
    distances = np.abs(np.arange(length) + 0.5 - middles) / max(scale, 1.0)
    shares = np.maximum(1 - distances, 0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)
