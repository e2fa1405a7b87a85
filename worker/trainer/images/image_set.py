"""The images of a classification job, and how they become a network's inputs with their labels.

Shapes: N images, B batch, C channels, S side in pixels.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.datasets import DatasetIndex
from worker.trainer.images.augment.augment import Transforms, apply_transforms
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.pixel_set import PixelSet, Shown, Split
from worker.trainer.optim.losses import count_classes

Batch = tuple[torch.Tensor, torch.Tensor]


def read_labels(index: DatasetIndex) -> NDArray[np.int64]:
    """Return the class of each row of the decoded array, (N,).

    If an image can have several labels: (N, classes), 1 for each of them.
    """
    samples = index.splits["train"] + index.splits["test"]
    if index.labels_separator is None:
        return np.array([sample.label for sample in samples], dtype=np.int64)
    labels = np.zeros((len(samples), len(index.classes)), dtype=np.int64)
    for row, sample in enumerate(samples):
        labels[row, sample.labels] = 1
    return labels


class ImageSet(PixelSet):
    """Pixels, labels and splits; see `PixelSet` for the arguments."""

    def __init__(
        self,
        decoded: DecodedImages,
        index: DatasetIndex,
        *,
        validation_fraction: float,
        device: torch.device,
        memory_format: torch.memory_format,
        budget_bytes: int | None = None,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        super().__init__(
            decoded,
            index,
            validation_fraction=validation_fraction,
            device=device,
            memory_format=memory_format,
            budget_bytes=budget_bytes,
            say=say,
        )
        self._host_labels = torch.from_numpy(read_labels(index))
        if self.has_labels:
            self._host_labels = self._host_labels.float()
        self._labels = self._host_labels.to(device)

    @property
    def has_labels(self) -> bool:
        """Whether an image can have several labels; batches then have (B, classes) targets."""
        return self._host_labels.ndim == 2

    def count_classes(self, split: Split) -> list[int]:
        """Return how many images of each class a split has, by label."""
        if self.has_labels:
            counts: list[int] = self._host_labels[self.rows[split]].sum(dim=0).long().tolist()
            return counts
        return count_classes(self._host_labels[self.rows[split]], num_classes=len(self.classes))

    def get_batch(self, rows: torch.Tensor, transforms: Transforms | None = None) -> Batch:
        """Return normalised images (B, C, S, S) float32 and labels (B,) int64 of some rows."""
        return self.finish(self.get_planes(rows), rows, transforms)

    def finish(
        self, planes: torch.Tensor, rows: torch.Tensor, transforms: Transforms | None
    ) -> Batch:
        """Return a batch on the device, augmented and normalised; in parts if memory is short.

        Args:
            planes: (B, C, S, S) uint8 on the device.
            rows: (B,), their rows.
            transforms: Changes of the batch's images.

        Raises:
            torch.OutOfMemoryError: the batch does not fit even in parts.
        """

        def prepare(places: slice) -> Shown:
            images = planes[places].float()  # a copy
            if transforms is not None:
                images = apply_transforms(images, transforms.slice(places.start, places.stop))
            return images, None

        images = self.finish_images(len(planes), prepare)
        return images, self._labels.index_select(0, rows.to(self.device))

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield all of a split in its own order; the last batch may be smaller."""
        for rows, planes in self.planes(split, batch_size=batch_size):
            yield self.finish(planes, rows, None)
