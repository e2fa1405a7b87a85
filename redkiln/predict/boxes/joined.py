"""A detector's outputs as one array, and back.

Shapes: B batch, M reported boxes of an image, G most objects of an image.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.scores import CROWD, Detections

OUTPUTS = ("boxes", "scores", "labels")
"""Names of a file's outputs: (B, M, 4) float32, (B, M) float32 and (B, M) int64."""
THRESHOLD = "threshold"
"""Name of the input that is the smallest score of a reported box."""
OBJECTS = "objects"
"""Name of the true objects in `parity.npz`, (N, G, 5) float32: label and box."""
NOTHING = -1
"""Label of a place without a box."""


def join_outputs(found: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return boxes, scores and labels as (B, M, 6) float32."""
    boxes, scores, labels = found
    joined: NDArray[np.float32] = np.concatenate(
        [boxes, scores[..., None], labels[..., None]], axis=-1, dtype=np.float32
    )
    return joined


def split_outputs(joined: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Return the outputs of `join_outputs` by name."""
    parts = joined[..., :4], joined[..., 4], joined[..., 5].astype(np.int64)
    return dict(zip(OUTPUTS, parts, strict=True))


def list_found(joined: NDArray[np.float32], *, threshold: float = 0.0) -> list[Detections]:
    """Return the boxes of each image (B, M, 6) whose score is at least the threshold."""
    if joined.dtype == object:  # with masks, see `redkiln.predict.instances.joined`
        return [one.select(one.scores >= threshold) for one in joined]
    found = []
    for rows in joined:
        some = rows[(rows[:, 5] > NOTHING) & (rows[:, 4] >= threshold)]
        found.append(Detections(some[:, :4], some[:, 4], some[:, 5].astype(np.int64)))
    return found


def list_truth(objects: NDArray[np.float32]) -> list[Detections]:
    """Return the objects of each image, crowds included, from (B, G, 5)."""
    if objects.dtype == object:
        return list(objects)
    truth = []
    for rows in objects:
        some = rows[rows[:, 0] != NOTHING]
        labels = some[:, 0].astype(np.int64)
        truth.append(Detections(some[:, 1:], np.ones(len(some), dtype=np.float32), labels))
    return truth


def pad_objects(tables: Sequence[Detections]) -> NDArray[np.float32]:
    """Return the objects of each image as (B, G, 5), with label -1 for a place without one."""
    most = max((len(table.labels) for table in tables), default=0)
    padded = np.zeros((len(tables), max(1, most), 5), dtype=np.float32)
    padded[..., 0] = NOTHING
    for rows, table in zip(padded, tables, strict=True):
        rows[: len(table.labels)] = np.column_stack([table.labels, table.boxes])
    return padded


def drop_crowds(truth: Detections) -> Detections:
    """Return the objects without groups of them."""
    return truth.select(truth.labels != CROWD)
