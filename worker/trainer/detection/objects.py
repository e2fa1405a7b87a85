"""The objects of all images, as one table on the host, and the targets of a batch.

Targets are made on the host, where their small steps take less time than on a device, and are sent
as one tensor.

Shapes: N images, O objects of all images, B batch, T images that one picture is made of, M most
objects of a picture in the batch.
"""

from dataclasses import dataclass
from typing import ClassVar

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
    """Which objects the pictures of a batch have.

    Attributes:
        objects: (B, M), rows of the table; -1 where a picture has no more objects.
        tiles: (B, M), which of its images each object is from, from 0 to T - 1.
        counts: (B,), objects of each picture.
    """

    objects: NDArray[np.int64]
    tiles: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_places(num_objects: int) -> int:
    """Return how many places the targets of a batch have for its largest number of objects."""
    return -(-max(1, num_objects) // ROUND_TO) * ROUND_TO


class Objects:
    """The objects of all images of a data set, in the pixels of the squares that the model sees.

    Attributes:
        counts: (N,) int64, objects of each row of the decoded array.
        has_crowds: Whether any is a crowd.
        device: Device that batches are used on.
        batches_at_once: Batches whose targets are made together, because the time of the many
            small steps hardly depends on the number of objects.

    Args:
        index: The data set.
        pixel_format: The squares.
        device: Device that batches are used on.

    Raises:
        TrainingFailed: an image has more than `MOST_OBJECTS`.
    """

    batches_at_once: ClassVar[int] = 32

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
        self._table = np.concatenate([*tables, empty]).astype(np.float32)  # (O + 1, 5)
        self.has_crowds = bool((self._table[:, 0] == CROWD).any())
        self.device = device

    def find_places(self, rows: NDArray[np.int64], *, is_used: NDArray[np.bool_]) -> Places:
        """Return which objects some pictures have.

        Args:
            rows: (B, T), images that each picture is made of.
            is_used: (B, T), whether an image counts.
        """
        num_pictures, num_tiles = rows.shape
        counts = np.where(is_used, self.counts[rows], 0)
        totals = counts.sum(axis=1)
        most = count_places(int(totals.max()))
        # The objects of all pictures in one row, each with the image that it is from.
        image = np.repeat(np.arange(rows.size), counts.reshape(-1))
        number = np.arange(len(image))
        row = self._first[rows].reshape(-1)[image] + number - _starts_of(counts)[image]
        picture = image // num_tiles
        place = picture, number - _starts_of(totals)[picture]
        objects = np.full((num_pictures, most), -1)
        tiles = np.zeros((num_pictures, most), dtype=np.int64)
        objects[place], tiles[place] = row, image % num_tiles
        return Places(objects, tiles, totals)

    def find_targets(self, places: Places, views: Views | None) -> torch.Tensor:
        """Return targets (B, M, 5) as the pictures of a batch show them, on the device.

        A target is label, left, top, right and bottom.

        Args:
            places: The pictures' objects.
            views: Their views on the host; None if they are their images.
        """
        targets = self._table[places.objects]
        if views is not None:
            targets = move_targets(targets, places.tiles, views)
        return send(torch.from_numpy(targets), self.device)

    def complete(self, targets: torch.Tensor) -> torch.Tensor:
        """Return made-up targets (B, M, 5) with all columns that real ones have."""
        return targets

    def get_truth(self, row: int) -> Detections:
        """Return the objects of an image, with crowds, for scoring."""
        table = self._table[self._first[row] : self._first[row + 1]]
        labels = table[:, 0].astype(np.int64)
        return Detections(table[:, 1:], np.ones(len(table), dtype=np.float32), labels)


def _starts_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many objects come before those of each entry, in one row."""
    return counts.cumsum() - counts.reshape(-1)


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
