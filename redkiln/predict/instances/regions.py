"""The pixels of objects as COCO's compressed runs, which take little memory.

Shapes: M objects, S side of the model's square, T side of the masks that a model returns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter, ValidationError

from redkiln.coco import Region

READER: TypeAdapter[Region] = TypeAdapter(Region)
INSIDE = 128
"""Smallest value, of 255, of a pixel that belongs to the object."""


def encode(masks: NDArray[np.uint8]) -> list[bytes]:
    """Return masks (M, S, S) of 0 and 1 as runs."""
    from faster_coco_eval.core import mask

    if not len(masks):
        return []
    return [one["counts"] for one in mask.encode(np.asfortranarray(masks.transpose(1, 2, 0)))]


def decode(regions: Sequence[bytes], side: int) -> NDArray[np.uint8]:
    """Return runs as masks (M, S, S) of 0 and 1."""
    from faster_coco_eval.core import mask

    if not len(regions):
        return np.zeros((0, side, side), dtype=np.uint8)
    stacked: NDArray[np.uint8] = mask.decode(
        [{"size": [side, side], "counts": one} for one in regions]
    )
    return np.ascontiguousarray(stacked.transpose(2, 0, 1))


def read_region(region: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the pixels of an object as COCO writes them, as a mask (H, W) of 0 and 1.

    Args:
        region: Polygons, or runs of pixels as a list or as text.
        size: (width, height) of the image.

    Raises:
        ValueError: They are neither, or the runs are of another image.
    """
    from faster_coco_eval.core import mask

    width, height = size
    try:
        known = READER.validate_python(region)
    except ValidationError as error:
        message = "an object has neither polygons nor runs of pixels as its `segmentation`"
        raise ValueError(message) from error
    if isinstance(known, list):
        runs = mask.merge(mask.frPyObjects(known, height, width))
    elif known.size != (height, width):
        raise ValueError(f"the runs of an object are not those of {width} x {height} pixels")
    elif isinstance(known.counts, str):
        runs = known.model_dump()
    else:
        runs = mask.frPyObjects(known.model_dump(), height, width)
    found: NDArray[np.uint8] = mask.decode(runs)
    return found


def count_pixels(regions: Sequence[dict[str, Any]]) -> list[int]:
    """Return how many pixels each of COCO's runs has."""
    from faster_coco_eval.core import mask

    return [int(area) for area in mask.area(list(regions))]


def find_overlaps(
    one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]
) -> NDArray[np.float64]:
    """Return the intersection over union of each pair of COCO's runs."""
    from faster_coco_eval.core import mask

    if not len(one) or not len(other):
        return np.zeros((len(one), len(other)))
    overlaps = mask.iou(list(one), list(other), [0] * len(other))
    return np.asarray(overlaps, np.float64).reshape(len(one), len(other))


def enlarge(masks: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return masks (M, T, T) of 0 to 255 as masks of 0 and 1 with `size`, (width, height)."""
    width, height = size
    enlarged = np.empty((len(masks), height, width), dtype=np.uint8)
    for place, one in enumerate(masks):
        picture = Image.fromarray(one).resize(size, Image.Resampling.BILINEAR)
        enlarged[place] = np.asarray(picture) >= INSIDE
    return enlarged
