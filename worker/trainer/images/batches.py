"""Draws the training batches from a job's images, epoch after epoch."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from redkiln.tasks.image_classification import Augment
from worker.trainer.images.augment.augment import Transforms, draw_transforms
from worker.trainer.images.image_set import Batch, ImageSet
from worker.trainer.images.rows.prefetch import Request
from worker.trainer.images.rows.read_ahead import DEPTH, ReadAhead
from worker.trainer.images.upcoming import Place, Upcoming
from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator

BYTES_AT_ONCE = 8 << 20
MOST_AT_ONCE = 8
"""Small batches are read and prepared several at a time, because launching an operator between two
steps costs more than its work: 64 resident images of 32 pixels took 1.07 ms one batch at a time and
0.6 ms in groups of eight (two cores of a Xeon, between amdnet's steps, November 2026)."""
FLOAT_BYTES = 4


def draw_order(rows: torch.Tensor, *, seed: int, epoch: int) -> torch.Tensor:
    """Return the rows of a split in the order of an epoch.

    Drawn on the host, whatever the device, so that images read from disk come in the same order.
    """
    generator = build_generator(seed, "order", epoch, device=torch.device("cpu"))
    return rows[torch.randperm(len(rows), generator=generator)]


@dataclass(frozen=True)
class _Epoch:
    number: int
    rows: torch.Tensor
    transforms: Transforms


@dataclass(frozen=True)
class _Group:
    """Consecutive batches of an epoch that were prepared together."""

    epoch: int
    places: range
    memory_format: torch.memory_format
    batches: list[Batch]

    def has(self, epoch: int, place: int, memory_format: torch.memory_format) -> bool:
        is_alike = (epoch, memory_format) == (self.epoch, self.memory_format)
        return is_alike and place in self.places


class TrainBatches:
    """Shuffled, augmented batches of the training split, each a function of (seed, epoch, place).

    Samples that do not fill a last batch are left out of the epoch; another epoch's order leaves
    out other samples.

    Attributes:
        pace: Measures the host's time for preparing batches.
        ranks: Ranks that share each batch.

    Args:
        images: The job's images.
        batch_size: Samples per batch.
        augment: Augmentation from the spec.
        seed: Seed of the order and of the random changes.
        depth: Initial number of batches read ahead.
        on_depth: Called with the number of batches read ahead once it has been chosen.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        batch_size: int,
        augment: Augment,
        seed: int,
        depth: int = DEPTH,
        on_depth: Callable[[int], None] = lambda _depth: None,
    ) -> None:
        self._images = images
        self._augment = augment
        self._seed = seed
        self._epoch: _Epoch | None = None
        self._group: _Group | None = None
        self.pace = Pace()
        self.ranks = ALONE
        self.batch_size = batch_size
        self.num_batches = images.num("train") // batch_size
        self._upcoming = Upcoming(
            images,
            self._requests,
            batch_size=batch_size * self._num_at_once,
            depth=depth,
            on_depth=on_depth,
        )

    @property
    def read_ahead(self) -> ReadAhead:
        """Chooses how many batches are read ahead, if images are not resident."""
        return self._upcoming.read_ahead

    def get(self, epoch: int, place: int) -> Batch:
        """Return batch `place` of epoch `epoch`, both counted from 0.

        Raises:
            TrainingFailed: an image could not be read.
        """
        with self.pace.making():
            group, memory_format = self._group, self._images.memory_format
            if group is None or not group.has(epoch, place, memory_format):
                group = self._group = None  # frees its memory for the next group
                group = self._make(epoch, self._find_places(place))
            # Drop a group as soon as its last batch has been taken.
            self._group = group if place < group.places[-1] else None
            return group.batches[place - group.places.start]

    def close(self) -> None:
        """Stop reading and decoding; a later `get` starts both again."""
        self._group = None
        self._upcoming.close()
        self._images.close()

    def _make(self, epoch: int, places: range) -> _Group:
        images, drawn = self._images, self._drawn(epoch)
        start, stop = self._span_of(places)
        rows = drawn.rows[start:stop]
        is_resident = images.home == "device"
        planes = images.select_planes(rows) if is_resident else self._take(epoch, places)
        inputs, labels = images.finish(planes, rows, drawn.transforms.slice(start, stop))
        parts = (inputs.tensor_split(len(places)), labels.tensor_split(len(places)))
        return _Group(epoch, places, images.memory_format, list(zip(*parts, strict=True)))

    def _find_places(self, place: int) -> range:
        """Return the places prepared together with `place`; the same for all of them."""
        first = place - place % self._num_at_once
        return range(first, min(first + self._num_at_once, self.num_batches))

    @property
    def _num_at_once(self) -> int:
        if not self.ranks.is_alone:
            return 1
        batch_bytes = self.batch_size * math.prod(self._images.image_shape) * FLOAT_BYTES
        return max(1, min(MOST_AT_ONCE, BYTES_AT_ONCE // batch_bytes))

    def _span(self, place: int) -> tuple[int, int]:
        """Return the bounds of this rank's part of a batch in its epoch's order."""
        return self.ranks.share(place * self.batch_size, (place + 1) * self.batch_size)

    def _span_of(self, places: range) -> tuple[int, int]:
        return self._span(places[0])[0], self._span(places[-1])[1]

    def _take(self, epoch: int, places: range) -> torch.Tensor:
        """Return the planes of some places when images are not resident."""
        is_last = places.stop == self.num_batches
        following = (epoch + 1, 0) if is_last else (epoch, places.stop)
        return self._upcoming.take((epoch, places[0]), following=following, num=len(places))

    def _requests(self, first: Place) -> Iterator[Request]:
        """Yield requests from a place onwards, epoch after epoch; runs in the reading thread."""
        epoch, place = first
        while True:
            order = draw_order(self._images.rows["train"], seed=self._seed, epoch=epoch)
            while place < self.num_batches:
                places = self._find_places(place)
                start, stop = self._span_of(places)
                yield (epoch, place), order[start:stop].tolist()
                place = places.stop
            epoch, place = epoch + 1, 0

    def _drawn(self, epoch: int) -> _Epoch:
        if self._epoch is None or self._epoch.number != epoch:
            self._epoch = self._draw(epoch)
        return self._epoch

    def _draw(self, epoch: int) -> _Epoch:
        order = draw_order(self._images.rows["train"], seed=self._seed, epoch=epoch)
        transforms = draw_transforms(
            self._augment,
            num=len(order),
            size=self._images.size,
            seed=self._seed,
            epoch=epoch,
            device=self._images.device,
            channels=self._images.image_shape[0],
        )
        return _Epoch(epoch, order.to(self._images.device), transforms)
