"""Paints the regions of an image into a mask.

Larger regions are painted first, so that a small object remains visible on a large one.

Shapes: H and W height and width of the image.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from service.datasets.inspect.boxes.written import Runs, WrittenBox

BACKGROUND = "background"
"""Name of the class of pixels without an object, which is the first one."""


class BadRegion(Exception):  # noqa: N818  named after what is wrong
    """A region that cannot be painted; `place` is its file with a pointer."""

    def __init__(self, message: str, place: str) -> None:
        self.message, self.place = message, place
        super().__init__(message)


def paint(
    regions: Sequence[WrittenBox], size: tuple[int, int], labels: Mapping[str, int]
) -> tuple[NDArray[np.uint8], list[BadRegion]]:
    """Return the mask (H, W) of an image, and the regions that have no pixel in it.

    Args:
        regions: The image's objects, with their regions.
        size: (width, height) of the picture that the regions are for.
        labels: Label by name of the class.
    """
    mask = np.zeros(size[::-1], dtype=np.uint8)
    areas, bad = [], []
    for one in regions:
        try:
            pixels = draw_region(one, size)
        except BadRegion as fault:
            bad.append(fault)
            continue
        areas.append((len(pixels), labels[one.class_name], pixels))
    for _, label, pixels in sorted(areas, key=lambda area: -area[0]):
        mask.reshape(-1)[pixels] = label
    return mask, bad


def draw_region(one: WrittenBox, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return the places of a region's pixels, row by row.

    Raises:
        BadRegion: It has none in the image, or is for another size.
    """
    assert one.region is not None
    if isinstance(one.region, Runs):
        pixels = np.flatnonzero(_draw_runs(one.region, size, one.place))
    else:
        parts = [_fill(np.array(polygon).reshape(-1, 2), size) for polygon in one.region]
        pixels = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
    if not len(pixels):
        raise BadRegion(f"has no pixel in its image of {size[0]} x {size[1]} pixels", one.place)
    return pixels


_FARTHEST = 1e7
"""Largest coordinate in pixels that is kept, so that no number of a file overflows."""


def _fill(points: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.int64]:
    """Return the places of the pixels whose centres are inside an outline (P, 2).

    Along each row of pixels, each edge that the row crosses turns inside into outside, and back.
    """
    width, _ = size
    points = points.clip(-_FARTHEST, _FARTHEST)
    left, top = np.ceil(points.min(axis=0) - 0.5).clip(0, size).astype(np.int64).tolist()
    right, bottom = np.ceil(points.max(axis=0) - 0.5).clip(0, size).astype(np.int64).tolist()
    if right <= left or bottom <= top:
        return np.empty(0, dtype=np.int64)
    turns = np.zeros((bottom - top, right - left + 1), dtype=np.int64)
    ends = np.stack([points, np.roll(points, -1, axis=0)], axis=1)  # (P, 2, 2)
    for (x0, y0), (x1, y1) in ends[np.arange(len(ends))[:, None], ends[..., 1].argsort(axis=1)]:
        rows = np.arange(max(top, math.ceil(y0 - 0.5)), min(bottom, math.ceil(y1 - 0.5)))
        if len(rows):
            crossed = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            columns = np.ceil(crossed - 0.5).clip(left, right).astype(np.int64)
            turns[rows - top, columns - left] += 1
    inside = turns[:, :-1].cumsum(axis=1) % 2 == 1
    rows, columns = np.nonzero(inside)
    places: NDArray[np.int64] = (rows + top) * width + columns + left
    return places


def _draw_runs(runs: Runs, size: tuple[int, int], place: str) -> NDArray[np.bool_]:
    width, height = size
    if runs.size != (height, width):
        rows, columns = runs.size
        raise BadRegion(
            f"has runs for {columns} x {rows} pixels, but its image has {width} x {height}", place
        )
    counts = unpack_runs(runs.counts) if isinstance(runs.counts, str) else list(runs.counts)
    if counts is None or sum(counts) != width * height:
        raise BadRegion("has runs that do not add up to the pixels of its image", place)
    lengths = np.array(counts, dtype=np.int64)
    inside = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return inside.reshape(width, height).T


def unpack_runs(text: str) -> list[int] | None:
    """Return the lengths of runs that COCO's text holds; None if it is damaged.

    Each number has groups of five bits, the lowest first, in characters from `0` on; from the
    fourth number on it is the difference to the one before the last.

    Source: cocodataset/cocoapi, common/maskApi.c, rleFrString.
    """
    counts: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 30:
            return None
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        if counts[-1] < 0:
            return None
        value = shift = 0
    return None if shift else counts
