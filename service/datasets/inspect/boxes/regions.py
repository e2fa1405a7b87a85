"""Reads the regions of objects as COCO writes them: polygons, or runs of pixels."""

import math
from collections.abc import Sequence

from service.datasets.inspect.boxes.written import Corners, Polygons, Runs, read_number

FEWEST = 6
"""Numbers of the smallest polygon, a triangle."""
MOST_NUMBERS = 200_000
"""Most numbers of the polygons or the runs of one object."""


def read_segmentation(value: object) -> Polygons | Runs | str:
    """Return COCO's `segmentation`, or what is wrong with it."""
    if isinstance(value, list):
        return _read_polygons(value)
    if isinstance(value, dict):
        return _read_runs(value.get("counts"), value.get("size"))
    return "needs `segmentation`: a list of polygons, or `counts` and `size`"


def find_corners(region: Polygons | Runs) -> Corners:
    """Return the smallest box around a region; of runs, the whole image."""
    if isinstance(region, Runs):
        return 0.0, 0.0, float(region.size[1]), float(region.size[0])
    xs = [x for polygon in region for x in polygon[::2]]
    ys = [y for polygon in region for y in polygon[1::2]]
    return min(xs), min(ys), max(xs), max(ys)


def _read_polygons(value: Sequence[object]) -> Polygons | str:
    polygons = []
    for polygon in value:
        numbers = [read_number(one) for one in polygon] if isinstance(polygon, list) else []
        if len(numbers) < FEWEST or len(numbers) % 2 or None in numbers:
            return "needs polygons of at least three points, as a list of x, y, x, y, ..."
        polygons.append(tuple(number or 0.0 for number in numbers))
    if not polygons:
        return "has no polygon"
    if sum(map(len, polygons)) > MOST_NUMBERS:
        return f"has polygons of more than {MOST_NUMBERS // 2:,} points; simplify them"
    if not all(math.isfinite(number) for polygon in polygons for number in polygon):
        return "has a coordinate that is not a finite number"
    return tuple(polygons)


def _read_runs(counts: object, size: object) -> Runs | str:
    if not isinstance(size, list) or len(size) != 2 or not all(_is_count(one) for one in size):
        return "needs `size` with the height and the width of the image"
    if isinstance(counts, str) and len(counts) <= 5 * MOST_NUMBERS:
        return Runs(counts, (size[0], size[1]))
    is_list = isinstance(counts, list) and len(counts) <= MOST_NUMBERS
    if not is_list or not isinstance(counts, list) or not all(_is_count(one) for one in counts):
        return f"needs `counts`: a text, or a list of at most {MOST_NUMBERS:,} lengths of runs"
    return Runs(tuple(counts), (size[0], size[1]))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
