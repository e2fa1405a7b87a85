"""The objects of all images, as one table on the device, and the targets of a batch.

The host decides which objects a batch has, which takes their numbers alone; boxes are moved on the
device.

Shapes: N images, O objects of all images, B batch, T images that one picture is made of, M most
objects of a picture in the batch.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import AnnotatedImage, DetectionIndex
from redkiln.failure import FailureCode
from redkiln.predict.boxes.scores import CROWD, Detections
from redkiln.predict.fitting import find_fit
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.detection.views import move_targets
from worker.trainer.images.augment.views import Views
from worker.trainer.inputs import send

MOST_OBJECTS = 1000
"""Most objects of an image, and of a mosaic."""
ROUND_TO = 8
"""Targets have a multiple of this many places, so that batches have few different shapes."""
NOTHING = -1
"""Label of a place without an object."""


@dataclass(frozen=True)
class Places:
    """Which objects the pictures of a batch have, on the device.

    Attributes:
        objects: (B, M) int64, rows of the table; -1 where a picture has no more objects.
        tiles: (B, M) int64, which of its images each object is from, from 0 to T - 1.
        on_host: `objects` on the host.
    """

    objects: torch.Tensor
    tiles: torch.Tensor
    on_host: NDArray[np.int64]


class Objects:
    """The objects of all images of a data set, in the pixels of the squares that the model sees.

    Attributes:
        counts: (N,) int64, objects of each row of the decoded array.
        has_crowds: Whether any is a crowd.

    Args:
        index: The data set.
        pixel_format: The squares.
        device: Device that batches are used on.

    Raises:
        TrainingFailed: an image has more than `MOST_OBJECTS`.
    """

    def __init__(
        self, index: DetectionIndex, pixel_format: PixelFormat, *, device: torch.device
    ) -> None:
        images = index.splits["train"] + index.splits["test"]
        for image in images:
            _refuse_many(image)
        tables = [_place_objects(image, pixel_format) for image in images]
        self.counts = np.array([len(table) for table in tables], dtype=np.int64)
        self._first = np.concatenate([[0], np.cumsum(self.counts)])
        # One more row, without an object, for the places that stay empty.
        empty = np.full((1, 5), [NOTHING, 0, 0, 0, 0], dtype=np.float32)
        self._host = np.concatenate([*tables, empty]).astype(np.float32)
        self._table = torch.from_numpy(self._host).to(device)  # (O + 1, 5)
        self.has_crowds = bool((self._host[:, 0] == CROWD).any())

    def find_places(self, rows: NDArray[np.int64], *, is_used: NDArray[np.bool_]) -> Places:
        """Return which objects some pictures have.

        Args:
            rows: (B, T), images that each picture is made of.
            is_used: (B, T), whether an image counts.
        """
        num_pictures, num_tiles = rows.shape
        counts = np.where(is_used, self.counts[rows], 0)
        ends = counts.cumsum(axis=1)
        most = -(-max(1, int(ends[:, -1].max())) // ROUND_TO) * ROUND_TO
        places = np.broadcast_to(np.arange(most), (num_pictures, most))
        # The tile of a place is the number of tiles whose objects come before it.
        tiles = (places[:, :, None] >= ends[:, None, :]).sum(axis=2)
        is_object = tiles < num_tiles
        tiles = np.minimum(tiles, num_tiles - 1)
        before = np.take_along_axis(ends - counts, tiles, axis=1)
        first = np.take_along_axis(self._first[rows], tiles, axis=1)
        found = np.where(is_object, first + places - before, -1)
        device = self._table.device
        objects, moved = (send(torch.from_numpy(part), device) for part in (found, tiles))
        return Places(objects, moved, found)

    def select(self, places: Places) -> torch.Tensor:
        """Return targets (B, M, 5): label, and left, top, right, bottom in each object's image."""
        return self._table[places.objects]

    def find_targets(self, places: Places, views: Views | None) -> torch.Tensor:
        """Return targets (B, M, 5) as the pictures of a batch show them; None shows images."""
        targets = self.select(places)
        return targets if views is None else move_targets(targets, places.tiles, views)

    def complete(self, targets: torch.Tensor) -> torch.Tensor:
        """Return made-up targets (B, M, 5) with all columns that real ones have."""
        return targets

    def get_truth(self, row: int) -> Detections:
        """Return the objects of an image, with crowds, for scoring."""
        table = self._host[self._first[row] : self._first[row + 1]]
        labels = table[:, 0].astype(np.int64)
        return Detections(table[:, 1:], np.ones(len(table), dtype=np.float32), labels)


def _refuse_many(image: AnnotatedImage) -> None:
    if len(image.boxes) > MOST_OBJECTS:
        message = (
            f"{image.path} has {len(image.boxes):,} objects, and training supports at most "
            f"{MOST_OBJECTS:,} an image; cut the image into smaller ones"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, path=image.path)


def _place_objects(image: AnnotatedImage, pixel_format: PixelFormat) -> NDArray[np.float32]:
    """Return an image's objects in its square, (M, 5) float32: label and box."""
    if not image.boxes:
        return np.empty((0, 5), dtype=np.float32)
    assert pixel_format.resize != "crop"
    fit = find_fit((image.width, image.height), pixel_format.size, pixel_format.resize)
    boxes = fit.to_square(np.array([box.xyxy for box in image.boxes], dtype=np.float64))
    labels = [CROWD if box.crowd else box.label for box in image.boxes]
    return np.column_stack([labels, boxes]).astype(np.float32)
