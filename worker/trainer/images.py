"""The images of a job, resident on the device, and the batches that training draws from them.

Legend of shapes: N images, B batch, C channels, S side in pixels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from redkiln.datasets import DatasetIndex, take_fraction
from redkiln.tasks.image_classification import Augment
from worker.trainer.augment import Transforms, apply_transforms, draw_transforms
from worker.trainer.decode import DecodedImages
from worker.trainer.losses import count_classes
from worker.trainer.pace import Pace
from worker.trainer.seeds import build_generator

Split = Literal["train", "validation", "test"]
Batch = tuple[torch.Tensor, torch.Tensor]

RESIDENT_SHARE = 0.6
"""Of a GPU's free memory that images may take; larger sets stay in host memory."""


def split_rows(index: DatasetIndex, *, validation_fraction: float) -> dict[Split, list[int]]:
    """The rows of the decoded array in each split, by the index's frozen order."""
    train = index.splits["train"]
    labels, ranks = [s.label for s in train], [s.rank for s in train]
    held = take_fraction(labels, ranks, fraction=validation_fraction)
    first_test = len(train)
    return {
        "train": [row for row, is_held in enumerate(held) if not is_held],
        "validation": [row for row, is_held in enumerate(held) if is_held],
        "test": list(range(first_test, first_test + len(index.splits["test"]))),
    }


class ResidentImages:
    """Pixels, labels and splits on a device.

    Attributes:
        device: where batches are made and used.
        classes: names, by label.
        rows: of each split, on the device that holds the pixels.
    """

    def __init__(
        self,
        decoded: DecodedImages,
        index: DatasetIndex,
        *,
        validation_fraction: float,
        device: torch.device,
        memory_format: torch.memory_format,
    ) -> None:
        self.device = device
        self.classes = index.classes
        self.size = decoded.images.shape[1]
        pixels = torch.from_numpy(decoded.images)  # (N, S, S, C) uint8
        self._pixels = pixels.to(_home(pixels, device))
        labels = [s.label for s in index.splits["train"] + index.splits["test"]]
        self._labels = torch.tensor(labels, device=self._pixels.device)
        rows = split_rows(index, validation_fraction=validation_fraction)
        self.rows: dict[Split, torch.Tensor] = {
            name: torch.tensor(places, dtype=torch.int64, device=self._pixels.device)
            for name, places in rows.items()
        }
        self._memory_format = memory_format
        # (x - mean) / std on grey levels from 0 to 255 is one multiplication and one addition.
        mean, std = torch.tensor(decoded.facts.mean), torch.tensor(decoded.facts.std)
        self._scale = (1 / (255 * std)).view(1, -1, 1, 1).to(device)
        self._shift = (mean / std).view(1, -1, 1, 1).to(device)

    def num(self, split: Split) -> int:
        """How many images a split has."""
        return len(self.rows[split])

    def count_classes(self, split: Split) -> list[int]:
        """How many images of each class a split has, by label."""
        return count_classes(self._labels[self.rows[split]], num_classes=len(self.classes))

    def get_batch(self, rows: torch.Tensor, transforms: Transforms | None = None) -> Batch:
        """Normalised images (B, C, S, S) float32 and labels (B,) int64 of some rows."""
        return self.finish(self.move(self.select(rows)), transforms)

    def select(self, rows: torch.Tensor) -> Batch:
        """Pixels (B, S, S, C) uint8 and labels of some rows, where the pixels lie."""
        return self._pixels.index_select(0, rows), self._labels.index_select(0, rows)

    def move(self, batch: Batch) -> Batch:
        """A selected batch on the device; a copy from pageable memory waits for it."""
        pixels, labels = (part.to(self.device, non_blocking=True) for part in batch)
        return pixels, labels

    def finish(self, batch: Batch, transforms: Transforms | None) -> Batch:
        """A moved batch, augmented and normalised."""
        pixels, labels = batch
        # Planes are what broadcasting and grid_sample are fast on.
        images = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        if transforms is not None:
            images = apply_transforms(images, transforms)
        images = images.mul_(self._scale).sub_(self._shift)
        return images.contiguous(memory_format=self._memory_format), labels

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """All of a split in its own order; the last batch may be smaller."""
        for rows in torch.split(self.rows[split], batch_size):
            yield self.get_batch(rows)


@dataclass(frozen=True)
class _Epoch:
    number: int
    rows: torch.Tensor
    transforms: Transforms


class TrainBatches:
    """Shuffled, augmented batches of the train split, each a function of (seed, epoch, place).

    What does not fill a batch is left out of an epoch; another order leaves others out.

    Attributes:
        pace: of the host, which makes the batches.
    """

    def __init__(
        self, images: ResidentImages, *, batch_size: int, augment: Augment, seed: int
    ) -> None:
        self._images = images
        self._augment = augment
        self._seed = seed
        self._epoch: _Epoch | None = None
        self.pace = Pace()
        self.batch_size = batch_size
        self.num_batches = images.num("train") // batch_size

    def get(self, epoch: int, place: int) -> Batch:
        """Batch `place` of epoch `epoch`, both counted from 0."""
        images, start, stop = self._images, place * self.batch_size, (place + 1) * self.batch_size
        with self.pace.making():
            if self._epoch is None or self._epoch.number != epoch:
                self._epoch = self._draw(epoch)
            selected = images.select(self._epoch.rows[start:stop])
        with self.pace.waiting():
            moved = images.move(selected)
        with self.pace.making():
            return images.finish(moved, self._epoch.transforms.slice(start, stop))

    def _draw(self, epoch: int) -> _Epoch:
        rows = self._images.rows["train"]
        generator = build_generator(self._seed, "order", epoch, device=rows.device)
        order = torch.randperm(len(rows), generator=generator, device=rows.device)
        transforms = draw_transforms(
            self._augment,
            num=len(rows),
            size=self._images.size,
            seed=self._seed,
            epoch=epoch,
            device=self._images.device,
        )
        return _Epoch(epoch, rows[order], transforms)


def _home(pixels: torch.Tensor, device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free_bytes, _ = torch.cuda.mem_get_info(device)
    is_small = pixels.numel() < RESIDENT_SHARE * free_bytes
    return device if is_small else torch.device("cpu")
