"""The images of a segmentation job with their masks, without augmentation.

Shapes: B batch, C channels, S side in pixels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from worker.trainer.images.drawn_batches import Batch
from worker.trainer.images.pixel_set import PixelSet, Split
from worker.trainer.segmentation.masks import Masks


@dataclass(frozen=True)
class SegmentationSamples:
    """Pixels and masks."""

    images: PixelSet
    masks: Masks

    def num(self, split: Split) -> int:
        """Return how many images a split has."""
        return self.images.num(split)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield images (B, C, S, S) and masks (B, S, S) of a split in its own order."""
        for rows, planes in self.images.planes(split, batch_size=batch_size):
            yield self._finish(rows, planes)

    def get_batch(self, rows: torch.Tensor) -> Batch:
        """Return the images and masks of some rows."""
        return self._finish(rows, self.images.get_planes(rows))

    def count_train(self) -> list[int]:
        """Return the training pixels of each class."""
        return self.masks.count(self.images.rows["train"], num_classes=len(self.images.classes))

    def _finish(self, rows: torch.Tensor, planes: torch.Tensor) -> Batch:
        images = self.images.finish_images(
            len(planes), lambda places: (planes[places].float(), None)
        )
        return images, self.masks.select(rows)
