"""The outputs of a file that finds objects and masks, as one array of objects, and back.

Shapes: B batch, N samples, M reported objects of an image, T side of a mask that a file returns,
S side of the square, G most objects of an image.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import NOTHING, OBJECTS, pad_objects
from redkiln.predict.boxes.joined import OUTPUTS as BOX_OUTPUTS
from redkiln.predict.boxes.scores import Detections
from redkiln.predict.instances.regions import encode, enlarge

MASKS = "masks"
OUTPUTS = (*BOX_OUTPUTS, MASKS)
"""Names of a file's outputs: those of a detector, and (B, M, T, T) uint8, 255 for a certain pixel
of the object."""
REGIONS, ENDS = "regions", "region_ends"
"""Names of the runs of all masks in `parity.npz`, one behind the other, uint8, and of the places
where each ends, int64; those of true objects begin with `objects_`."""


def list_objects(found: Sequence[NDArray[Any]], *, side: int) -> NDArray[Any]:
    """Return the outputs of a file as (B,) `Detections`, with masks as large as the square.

    Args:
        found: The outputs in the order of `OUTPUTS`.
        side: S.
    """
    return as_array([_read(*one, side=side) for one in zip(*found, strict=True)])


def as_array(objects: Sequence[Detections]) -> NDArray[Any]:
    """Return the objects of images as an array of Python objects."""
    array = np.empty(len(objects), dtype=object)
    array[:] = objects
    return array


def save_found(objects: NDArray[Any], *, most: int) -> dict[str, NDArray[Any]]:
    """Return found objects (N,) as plain arrays by name, for `parity.npz`."""
    boxes = np.zeros((len(objects), most, 4), dtype=np.float32)
    scores = np.zeros((len(objects), most), dtype=np.float32)
    labels = np.full((len(objects), most), NOTHING, dtype=np.int64)
    for place, one in enumerate(objects):
        num = len(one.labels)
        boxes[place, :num], scores[place, :num] = one.boxes, one.scores
        labels[place, :num] = one.labels
    parts: tuple[NDArray[Any], ...] = (boxes, scores, labels)
    return dict(zip(BOX_OUTPUTS, parts, strict=True)) | _save_regions(objects, prefix="")


def save_truth(objects: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return true objects (N,) as plain arrays by name, likewise."""
    return {OBJECTS: pad_objects(list(objects)), **_save_regions(objects, prefix=f"{OBJECTS}_")}


def load_found(arrays: dict[str, NDArray[Any]], *, side: int) -> NDArray[Any] | None:
    """Take what `save_found` wrote out of arrays; None if it is not there."""
    names = (*BOX_OUTPUTS, REGIONS, ENDS)
    if not set(names) <= set(arrays):
        return None
    boxes, scores, labels, regions, ends = (arrays.pop(name) for name in names)
    is_found = labels != NOTHING
    return _load(zip(boxes, scores, labels, is_found, strict=True), regions, ends, side=side)


def load_truth(arrays: dict[str, NDArray[Any]], *, side: int) -> NDArray[Any] | None:
    """Take what `save_truth` wrote out of arrays; None if it is not there."""
    names = (OBJECTS, f"{OBJECTS}_{REGIONS}", f"{OBJECTS}_{ENDS}")
    if not set(names) <= set(arrays):
        return None
    tables, regions, ends = (arrays.pop(name) for name in names)
    rows = (
        (table[:, 1:], np.ones(len(table), np.float32), table[:, 0].astype(np.int64), is_object)
        for table, is_object in zip(tables, tables[..., 0] != NOTHING, strict=True)
    )
    return _load(rows, regions, ends, side=side)


def _read(
    boxes: NDArray[Any],
    scores: NDArray[Any],
    labels: NDArray[Any],
    masks: NDArray[np.uint8],
    *,
    side: int,
) -> Detections:
    some = labels > NOTHING
    regions = encode(enlarge(masks[some], (side, side)))
    return Detections(boxes[some], scores[some], labels[some], regions, side)


def _save_regions(objects: NDArray[Any], *, prefix: str) -> dict[str, NDArray[Any]]:
    runs = [region for one in objects for region in one.regions]
    ends = np.cumsum([len(region) for region in runs], dtype=np.int64)
    joined = np.frombuffer(b"".join(runs), dtype=np.uint8)
    return {f"{prefix}{REGIONS}": joined, f"{prefix}{ENDS}": ends}


def _load(rows: Any, joined: NDArray[Any], ends: NDArray[Any], *, side: int) -> NDArray[Any]:
    content, limits = joined.tobytes(), [0, *ends.tolist()]
    runs = iter([content[start:stop] for start, stop in pairwise(limits)])
    found = []
    for boxes, scores, labels, some in rows:
        regions = [next(runs) for _ in range(int(some.sum()))]
        found.append(Detections(boxes[some], scores[some], labels[some], regions, side))
    return as_array(found)
