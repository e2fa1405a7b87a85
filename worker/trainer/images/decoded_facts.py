"""What is known of a decoded set of images beside its pixels."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.datasets import DatasetIndex
from worker.trainer.images.pixels import PixelFormat

if TYPE_CHECKING:
    from worker.trainer.images.pixel_rows import Rows

FACTS_ROWS = 16384
"""Training rows that mean and spread are computed of, evenly spaced: all of a smaller set. The same
ones whether a set is decoded at once or while it trains, so that both train alike."""
FACTS_VALUES = 2**27
"""Pixel values that they are computed of at most: a third of a second for one core."""
FACTS_BLOCK = 256
COUNTED_BYTES = 2**20
"""Pixels that are counted at once, which takes four times their memory; fewer cost time."""


class DecodedFacts(BaseModel):
    """What is known of a decoded set beside its pixels.

    Attributes:
        mean: of each channel over the train split, in [0, 1].
        std: likewise; at least one grey level, so that dividing by it is safe.
        images_per_second: that all cores decode, of a set that is decoded while it trains.
    """

    num_rows: int
    mean: list[float]
    std: list[float]
    images_per_second: float | None = None


def measure_facts(
    rows: "Rows",
    index: DatasetIndex,
    pixel_format: PixelFormat,
    *,
    on_block: Callable[[int], None],
) -> DecodedFacts:
    """Mean and spread of the training images; `on_block` is told how many were read so far."""
    chosen = choose_facts_rows(len(index.splits["train"]), num_bytes=pixel_format.num_bytes)
    levels = no_levels(pixel_format)
    block = np.empty((FACTS_BLOCK, *pixel_format.shape), dtype=np.uint8)
    for start in range(0, len(chosen), FACTS_BLOCK):
        some = chosen[start : start + FACTS_BLOCK]
        rows.read(some, block[: len(some)])
        levels += count_levels(block, range(len(some)))
        on_block(start + len(some))
    return facts_of(levels, index)


def facts_of(levels: NDArray[np.int64], index: DatasetIndex) -> DecodedFacts:
    """The facts by how often each grey level occurs, (C, 256).

    Exact, and the same however the rows were shared out.
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
    """Training rows, evenly spaced, that mean and spread are computed of.

    Args:
        num_train: rows there are.
        num_bytes: of each.
    """
    count = min(num_train, FACTS_ROWS, max(FACTS_BLOCK, FACTS_VALUES // num_bytes))
    return [number * num_train // count for number in range(count)]


def no_levels(pixel_format: PixelFormat) -> NDArray[np.int64]:
    """Counts of grey levels, (C, 256), before anything was counted."""
    return np.zeros((pixel_format.channels, 256), dtype=np.int64)


def count_levels(planes: NDArray[np.uint8], rows: Sequence[int]) -> NDArray[np.int64]:
    """How often each grey level occurs, (C, 256), in some rows of images (B, C, S, S)."""
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
    # In pairs, which takes half of the time.
    pairs = np.bincount(values.view(np.uint16), minlength=2**16).reshape(256, 256)
    counts: NDArray[np.int64] = pairs.sum(axis=0) + pairs.sum(axis=1)
    return counts


def count_rows(index: DatasetIndex) -> int:
    """Images of both splits."""
    return len(index.splits["train"]) + len(index.splits["test"])
