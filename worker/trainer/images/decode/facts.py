"""Facts about a decoded set of images, such as its mean and standard deviation."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.datasets import ImageIndex
from redkiln.predict.pixels import PixelFormat

if TYPE_CHECKING:
    from worker.trainer.images.rows.pixel_rows import Rows

FACTS_ROWS = 16384
"""Most training rows that mean and standard deviation are computed from, evenly spaced. They are
the same rows whether a set is decoded in advance or during training, so both train identically."""
FACTS_VALUES = 2**27
"""Most pixel values that they are computed from: a third of a second for one core."""
FACTS_BLOCK = 256
COUNTED_BYTES = 2**20
"""Pixels counted at once, which takes four times their memory; fewer would be slower."""


class DecodedFacts(BaseModel):
    """Facts about a decoded set.

    Attributes:
        mean: Mean of each channel over the training split, in [0, 1].
        std: Standard deviation likewise; at least one grey level, so that dividing by it is safe.
        images_per_second: Rate at which all cores decode, if the set is decoded during training.
    """

    num_rows: int
    mean: list[float]
    std: list[float]
    images_per_second: float | None = None


def measure_facts(
    rows: "Rows",
    index: ImageIndex,
    pixel_format: PixelFormat,
    *,
    on_block: Callable[[int], None],
) -> DecodedFacts:
    """Compute the facts from training images; `on_block` is called with the rows read so far."""
    chosen = choose_facts_rows(len(index.splits["train"]), num_bytes=pixel_format.num_bytes)
    levels = no_levels(pixel_format)
    block = np.empty((FACTS_BLOCK, *pixel_format.shape), dtype=np.uint8)
    for start in range(0, len(chosen), FACTS_BLOCK):
        some = chosen[start : start + FACTS_BLOCK]
        rows.read(some, block[: len(some)])
        levels += count_levels(block, range(len(some)))
        on_block(start + len(some))
    return facts_of(levels, index)


def facts_of(levels: NDArray[np.int64], index: ImageIndex) -> DecodedFacts:
    """Return the facts for the number of times each grey level occurs, (C, 256).

    The result is exact, and the same however the rows were divided among processes.
    """
    shares = levels / levels.sum(axis=1, keepdims=True)
    greys = np.arange(256, dtype=np.float64)
    means = shares @ greys
    stds = [np.sqrt(share @ (greys - mean) ** 2) for share, mean in zip(shares, means, strict=True)]
    return DecodedFacts(
        num_rows=count_rows(index),
        mean=[float(mean) / 255 for mean in means],
        std=[max(float(std), 1.0) / 255 for std in stds],
    )


def choose_facts_rows(num_train: int, *, num_bytes: int) -> list[int]:
    """Return evenly spaced training rows from which mean and standard deviation are computed.

    Args:
        num_train: Rows in the training split.
        num_bytes: Size of one image.
    """
    count = min(num_train, FACTS_ROWS, max(FACTS_BLOCK, FACTS_VALUES // num_bytes))
    return [number * num_train // count for number in range(count)]


def no_levels(pixel_format: PixelFormat) -> NDArray[np.int64]:
    """Return counts of grey levels, (C, 256), all zero."""
    return np.zeros((pixel_format.channels, 256), dtype=np.int64)


def count_levels(planes: NDArray[np.uint8], rows: Sequence[int]) -> NDArray[np.int64]:
    """Count how often each grey level occurs, (C, 256), in some rows of images (B, C, S, S)."""
    channels = planes.shape[1]
    levels = np.zeros((channels, 256), dtype=np.int64)
    at_once = max(1, COUNTED_BYTES // math.prod(planes.shape[1:]))
    for start in range(0, len(rows), at_once):
        some = planes[list(rows[start : start + at_once])]
        levels += np.stack([_count(some[:, channel].reshape(-1)) for channel in range(channels)])
    return levels


def _count(values: NDArray[np.uint8]) -> NDArray[np.int64]:
    if len(values) % 2:
        return np.bincount(values, minlength=256)
    # Counting pairs of values takes half of the time.
    pairs = np.bincount(values.view(np.uint16), minlength=2**16).reshape(256, 256)
    counts: NDArray[np.int64] = pairs.sum(axis=0) + pairs.sum(axis=1)
    return counts


def count_rows(index: ImageIndex) -> int:
    """Return the number of images in both splits."""
    return len(index.splits["train"]) + len(index.splits["test"])
