"""The images of a detection job with their objects, without augmentation.

Shapes: B batch, C channels, S side in pixels, M most objects of an image in the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from redkiln.predict.boxes.scores import Detections
from worker.trainer.detection.objects import Objects
from worker.trainer.images.pixel_set import PixelSet, Split

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class DetectionSamples:
    """Pixels and objects."""

    images: PixelSet
    objects: Objects

    def num(self, split: Split) -> int:
        """Return how many images a split has."""
        return self.images.num(split)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield images (B, C, S, S) and targets (B, M, 5) of a split in its own order."""
        for rows, planes in self.images.planes(split, batch_size=batch_size):
            yield self._finish(rows, planes)

    def get_batch(self, rows: torch.Tensor) -> Batch:
        """Return the images and targets of some rows."""
        return self._finish(rows, self.images.get_planes(rows))

    def mean_objects(self, split: Split) -> float:
        """Return the mean number of objects of a split's images; 0 without images."""
        rows = self.images.rows[split].numpy()
        return float(self.objects.counts[rows].mean()) if len(rows) else 0.0

    def list_truth(self, split: Split) -> list[Detections]:
        """Return the objects of each image of a split, in its own order, for scoring."""
        return [self.objects.get_truth(row) for row in self.images.rows[split].tolist()]

    def _finish(self, rows: torch.Tensor, planes: torch.Tensor) -> Batch:
        images = self.images.finish_images(
            len(planes), lambda places: (planes[places].float(), None)
        )
        alone = rows.cpu().numpy()[:, None]
        places = self.objects.find_places(alone, is_used=np.ones(alone.shape, dtype=np.bool_))
        return images, self.objects.find_targets(places, None)
