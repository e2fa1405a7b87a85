"""The images of a job: where their pixels are, and how they become a network's inputs.

A set that fits its budget is resident: on the device, or for a CPU as pages of the decoded file
that stay in memory. Of a larger set only the next batches are in memory, read ahead by a thread.
Both produce the same batches.

Shapes: N images, B batch, C channels, S side in pixels.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.datasets import DatasetIndex, ImageIndex, take_fraction
from worker.trainer.images.augment.augment import Transforms, apply_transforms
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.decode.room import Home, choose_depth, choose_home, detect_memory_budget
from worker.trainer.images.rows.pixel_rows import ArrayRows, Rows
from worker.trainer.images.rows.prefetch import Prefetch, Request
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.optim.losses import count_classes

PARTS = 8
"""Parts of a batch when memory is short: a batch prepared at once takes three times its own size in
addition to itself."""

Split = Literal["train", "validation", "test"]
Batch = tuple[torch.Tensor, torch.Tensor]


def split_rows(index: ImageIndex, *, validation_fraction: float) -> dict[Split, list[int]]:
    """Return the rows of the decoded array in each split: its own, or by its frozen order."""
    train = index.splits["train"]
    labels, ranks = [s.stratum for s in train], [s.rank for s in train]
    held = take_fraction(labels, ranks, fraction=validation_fraction)
    first_test = len(train)
    if index.num_validation:
        held = [row >= first_test - index.num_validation for row in range(first_test)]
    return {
        "train": [row for row, is_held in enumerate(held) if not is_held],
        "validation": [row for row, is_held in enumerate(held) if is_held],
        "test": list(range(first_test, first_test + len(index.splits["test"]))),
    }


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


class ImageSet:
    """Pixels, labels and splits.

    Args:
        decoded: The pixels.
        index: Labels and splits.
        validation_fraction: Share of the training split used for validation, from the spec.
        device: Device that batches are used on.
        memory_format: Memory format of batches.
        budget_bytes: Host memory for pixels. None: a share of what is free now.
        say: Called with a message when batches have to be prepared in parts.

    Attributes:
        memory_format: Memory format of batches; may be changed between them.
        classes: Names by label.
        rows: Rows of each split, on the host.
        home: Place that pixels are read from.
    """

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
        self.device = device
        self._say = say
        self._num_parts = 1
        self.classes = index.classes
        num, self.size, _, channels = decoded.images.shape
        self.image_shape = (channels, self.size, self.size)
        self.budget_bytes = detect_memory_budget() if budget_bytes is None else budget_bytes
        self._decoded = decoded
        self.home = self._choose_home(num)
        self._host_labels = torch.from_numpy(read_labels(index))
        if self.has_labels:
            self._host_labels = self._host_labels.float()
        self._labels = self._host_labels.to(device)
        self._pixels = self._load() if self.home == "device" else None  # (N, C, S, S) uint8
        rows = split_rows(index, validation_fraction=validation_fraction)
        self.rows: dict[Split, torch.Tensor] = {
            name: torch.tensor(places, dtype=torch.int64) for name, places in rows.items()
        }
        self.memory_format = memory_format
        # (x - mean) / std on grey levels from 0 to 255, as one multiplication and one addition.
        mean, std = torch.tensor(decoded.facts.mean), torch.tensor(decoded.facts.std)
        self._scale = (1 / (255 * std)).view(1, -1, 1, 1).to(device)
        self._offset = -(mean / std).view(1, -1, 1, 1).to(device)

    @property
    def has_labels(self) -> bool:
        """Whether an image can have several labels; batches then have (B, classes) targets."""
        return self._host_labels.ndim == 2

    @property
    def size_bytes(self) -> int:
        """Size of all decoded images, wherever they are."""
        return len(self._host_labels) * int(np.prod(self.image_shape))

    def num(self, split: Split) -> int:
        """Return how many images a split has."""
        return len(self.rows[split])

    def count_classes(self, split: Split) -> list[int]:
        """Return how many images of each class a split has, by label."""
        if self.has_labels:
            counts: list[int] = self._host_labels[self.rows[split]].sum(dim=0).long().tolist()
            return counts
        return count_classes(self._host_labels[self.rows[split]], num_classes=len(self.classes))

    def get_batch(self, rows: torch.Tensor, transforms: Transforms | None = None) -> Batch:
        """Return normalised images (B, C, S, S) float32 and labels (B,) int64 of some rows."""
        rows = rows.cpu()
        if self.home == "device":
            return self.finish(*self.select(rows.to(self.device)), transforms)
        planes = np.empty((len(rows), *self.image_shape), dtype=np.uint8)
        with contextlib.closing(self.open_rows()) as reader:
            reader.read(rows.tolist(), planes)
        pixels = torch.from_numpy(planes).to(self.device)
        return self.finish(pixels, self.select_labels(rows.to(self.device)), transforms)

    def select(self, rows: torch.Tensor) -> Batch:
        """Return planes (B, C, S, S) uint8 and labels of some rows, all on the device."""
        assert self._pixels is not None
        return self._pixels.index_select(0, rows), self.select_labels(rows)

    def select_labels(self, rows: torch.Tensor) -> torch.Tensor:
        """Return labels of some rows, all on the device."""
        return self._labels.index_select(0, rows)

    def open_rows(self) -> Rows:
        """Open a reader of the decoded set."""
        if self._decoded.open_rows is not None:
            return self._decoded.open_rows()
        planes = np.asarray(self._decoded.images).transpose(0, 3, 1, 2)
        return ArrayRows(np.ascontiguousarray(planes))

    def close(self) -> None:
        """Stop the decoding processes; the next read starts them again. No reader may be in use."""
        self._decoded.close()

    def read_ahead(
        self, rows: Rows, requests: Iterator[Request], *, batch_size: int, depth: int = DEPTH
    ) -> Prefetch:
        """Start a thread that reads batches of planes while earlier ones are used."""
        return Prefetch(
            rows,
            requests,
            batch_size=batch_size,
            image_shape=self.image_shape,
            device=self.device,
            depth=self.fit_depth(depth, batch_size=batch_size),
        )

    def fit_depth(self, wanted: int, *, batch_size: int) -> int:
        """Return how many batches can be read ahead within the memory for images."""
        batch_bytes = batch_size * int(np.prod(self.image_shape))
        return choose_depth(batch_bytes=batch_bytes, budget_bytes=self.budget_bytes, wanted=wanted)

    def finish(
        self, planes: torch.Tensor, labels: torch.Tensor, transforms: Transforms | None
    ) -> Batch:
        """Return a batch on the device, augmented and normalised; in parts if memory is short.

        Raises:
            torch.OutOfMemoryError: the batch does not fit even in parts.
        """
        images: torch.Tensor | None = None
        try:
            images = self._finish_in_parts(planes, transforms)
        except torch.OutOfMemoryError:
            if self._num_parts > 1:
                raise
        if images is None:
            # Outside the handler of the error, which keeps every tensor of the batch alive.
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self._num_parts = PARTS
            self._say(
                "the device ran out of memory while augmenting a batch of images; batches are now "
                f"prepared in {PARTS} parts, which is slower"
            )
            images = self._finish_in_parts(planes, transforms)
        return images, labels

    def _finish_in_parts(self, planes: torch.Tensor, transforms: Transforms | None) -> torch.Tensor:
        num, size = len(planes), -(-len(planes) // self._num_parts)
        if size == num:
            return self._finish_images(planes, transforms)
        shape, layout = tuple(planes.shape), self.memory_format
        out = torch.empty(shape, device=self.device, memory_format=layout)
        for start in range(0, num, size):
            stop = min(start + size, num)
            some = None if transforms is None else transforms.slice(start, stop)
            out[start:stop] = self._finish_images(planes[start:stop], some)
        return out

    def _finish_images(self, planes: torch.Tensor, transforms: Transforms | None) -> torch.Tensor:
        images = planes.float()  # a copy
        if transforms is not None:
            images = apply_transforms(images, transforms)
        return self._normalise_into_format(images)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield all of a split in its own order; the last batch may be smaller."""
        pieces = torch.split(self.rows[split], batch_size)
        if self.home == "device":
            for rows in pieces:
                yield self.get_batch(rows)
            return
        requests = ((None, rows.tolist()) for rows in pieces)
        with (
            contextlib.closing(self.open_rows()) as reader,
            contextlib.closing(self.read_ahead(reader, requests, batch_size=batch_size)) as ahead,
        ):
            for rows in pieces:
                found = ahead.next()
                assert found is not None
                labels = self.select_labels(rows.to(self.device))
                yield self.finish(found[1], labels, None)

    def _choose_home(self, num: int) -> Home:
        if not self._decoded.is_stored:
            return "disk"
        free_bytes = 0
        if self.device.type == "cuda":
            free_bytes, _ = torch.cuda.mem_get_info(self.device)
        return choose_home(
            num * int(np.prod(self.image_shape)),
            kind=self.device.type,
            free_bytes=free_bytes,
            budget_bytes=self.budget_bytes,
        )

    def _load(self) -> torch.Tensor:
        # On a CPU the pages of the mapped file stay in memory.
        planes = np.asarray(self._decoded.images).transpose(0, 3, 1, 2)
        return torch.from_numpy(planes).to(self.device)

    def _normalise_into_format(self, images: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(images, memory_format=self.memory_format)
        is_planar = self.memory_format == torch.contiguous_format
        if is_planar or self.device.type != "cpu" or images.shape[1] == 1:
            return torch.addcmul(self._offset, images, self._scale, out=out)
        # Plane by plane, which takes 0.6 of the time on a CPU.
        scales = self._scale.view(-1).tolist()
        for channel, offset in enumerate(self._offset.view(-1).unbind()):
            torch.add(offset, images[:, channel], alpha=scales[channel], out=out[:, channel])
        return out
