"""The pixels of the batches to come, if they are not resident: a thread reads them ahead."""

import time
from collections.abc import Callable, Iterator

import torch

from worker.trainer.images.pixel_set import PixelSet
from worker.trainer.images.rows.pixel_rows import Rows
from worker.trainer.images.rows.prefetch import Prefetch, Request
from worker.trainer.images.rows.read_ahead import MOST, ReadAhead

Place = tuple[int, int]
"""An epoch, and a batch's place in it."""


class Upcoming:
    """Reads ahead in one order, and starts over if another place is asked for.

    Args:
        images: The job's images.
        requests: Yields the requests from a place onwards, each named by its place; called in the
            reading thread.
        batch_size: Largest number of rows in a request.
        depth: Initial number of requests read ahead.
        on_depth: Called with the number of requests read ahead once it has been chosen.

    Attributes:
        read_ahead: Chooses how many requests are read ahead.
    """

    def __init__(
        self,
        images: PixelSet,
        requests: Callable[[Place], Iterator[Request]],
        *,
        batch_size: int,
        depth: int,
        on_depth: Callable[[int], None],
    ) -> None:
        self._images = images
        self._requests = requests
        self._batch_size = batch_size
        self._reader: Rows | None = None
        self._ahead: Prefetch | None = None
        self._next: Place | None = None
        most = images.fit_depth(MOST, batch_size=batch_size)
        self.read_ahead = ReadAhead(depth, most=most, on_settled=on_depth)

    def take(self, place: Place, *, following: Place, num: int = 1) -> torch.Tensor:
        """Return the planes (B, C, S, S) uint8 requested for a place, on the device.

        Args:
            place: The place.
            following: The place of the next request in order.
            num: Batches in the request.

        Raises:
            TrainingFailed: an image could not be read.
        """
        if self._ahead is None or self._next != place:
            self.close()
            self.read_ahead.start_over()
            self._reader = self._images.open_rows()
            self._ahead = self._images.read_ahead(
                self._reader,
                self._requests(place),
                batch_size=self._batch_size,
                depth=self.read_ahead.depth,
            )
        began = time.perf_counter()
        found = self._ahead.next()
        now = time.perf_counter()
        self.read_ahead.note(waited_seconds=now - began, now=now, num=num)
        self._ahead.deepen(self.read_ahead.depth)
        assert found is not None
        name, planes = found
        assert name == place
        self._next = following
        return planes

    def close(self) -> None:
        """Stop reading; a later `take` starts again."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
