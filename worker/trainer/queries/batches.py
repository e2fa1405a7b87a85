"""Batches whose targets the network takes, too, because it computes its loss itself."""

from collections.abc import Iterator
from typing import Literal

import torch

from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.inputs import Batch
from worker.trainer.ranks.distributed import Ranks
from worker.trainer.setup import Batches


class QueryBatches:
    """Training batches with the targets as a second input.

    Args:
        batches: The job's batches of images and targets.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.pace = batches.pace

    @property
    def ranks(self) -> Ranks:
        """Ranks that share each batch."""
        return self._batches.ranks

    @ranks.setter
    def ranks(self, ranks: Ranks) -> None:
        self._batches.ranks = ranks

    def get(self, epoch: int, place: int) -> Batch:
        """Return images and targets as inputs, and the targets."""
        return with_targets(self._batches.get(epoch, place))


class QuerySamples:
    """Samples without augmentation, with the targets as a second input.

    Args:
        samples: The job's samples.
    """

    def __init__(self, samples: DetectionSamples) -> None:
        self._samples = samples

    def num(self, split: Literal["validation"]) -> int:
        """Return how many images a split has."""
        return self._samples.num(split)

    def batches(self, split: Literal["validation"], *, batch_size: int) -> Iterator[Batch]:
        """Yield images and targets of a split as inputs, and the targets."""
        for batch in self._samples.batches(split, batch_size=batch_size):
            yield with_targets(batch)


def with_targets(batch: Batch) -> Batch:
    """Return a batch whose inputs are its images and its targets."""
    images, targets = batch
    assert isinstance(images, torch.Tensor)
    return (images, targets), targets
