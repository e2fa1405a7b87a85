"""How an image looks: a digest of its pixels, and two small grey pictures.

Shapes: N images of H x W pixels with C channels, 1 or 3.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 9, 8
"""A row of 9 pixels has 8 differences."""
FINE_SIDE = 16
_DIGEST_BYTES = 16
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""Share of red, green and blue in grey. Source: ITU-R BT.601, which Pillow uses, too."""
_PIXELS_AT_ONCE = 2**22


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


@dataclass(frozen=True)
class ArrayLook:
    """What is compared of the images in an array.

    Attributes:
        digests: (N,) int64 digest of the pixels; equal images have the same.
        small: (N, 72) uint8 grey pixels.
        fine: (N, 256) uint8 grey pixels.
    """

    digests: np.ndarray
    small: np.ndarray
    fine: np.ndarray


def shrink_array(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the small pictures (N, 72) and the finer ones (N, 256) of images (N, H, W, C) uint8.

    Pixels are means of areas, as `Look` has them.
    """
    num, height, width, channels = images.shape
    at_once = max(1, _PIXELS_AT_ONCE // (height * width))
    sizes = ((HEIGHT, WIDTH), (FINE_SIDE, FINE_SIDE))
    found = [np.empty((num, rows * columns), np.uint8) for rows, columns in sizes]
    for start in range(0, num, at_once):
        part = images[start : start + at_once].astype(np.float32)
        grey = part[..., 0] if channels == 1 else part @ _GREY
        for (rows, columns), pictures in zip(sizes, found, strict=True):
            means = _areas(rows, height) @ grey @ _areas(columns, width).T
            pictures[start : start + at_once] = np.rint(means).reshape(len(part), -1)
    return found[0], found[1]


def _areas(num: int, length: int) -> np.ndarray:
    """Return (num, length) float32 shares of pixels in the mean of each of `num` equal parts."""
    borders = np.arange(num + 1) * (length / num)
    first, last = borders[:-1, None], borders[1:, None]
    pixels = np.arange(length)
    covered = np.minimum(last, pixels + 1) - np.maximum(first, pixels)
    shares: np.ndarray = np.maximum(covered, 0) / (length / num)
    return shares.astype(np.float32)
