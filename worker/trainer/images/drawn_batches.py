"""Batches whose pictures are drawn for an epoch at once: order, views and colours.

Shapes: N positions of an epoch, B batch, R images that a batch is made of, C channels, S side.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import torch

from redkiln.spec.image_training import ColourChanges
from worker.trainer.images.augment.colour import draw_colours
from worker.trainer.images.pixel_set import PixelSet, Shown
from worker.trainer.images.rows.prefetch import Request
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.images.upcoming import Place, Upcoming
from worker.trainer.inputs import send
from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator

Batch = tuple[torch.Tensor, torch.Tensor]


class Drawn(Protocol):
    """What the positions of an epoch show.

    Attributes:
        number: The epoch.
    """

    @property
    def number(self) -> int:
        """The epoch, from 0."""


OfEpoch = TypeVar("OfEpoch", bound=Drawn)
ListRows = Callable[[slice], torch.Tensor]
"""Returns the rows (R,) on the host whose pixels some positions of an epoch need."""


class DrawnBatches(ABC, Generic[OfEpoch]):
    """Shuffled, augmented batches, each a function of (seed, epoch, place).

    Images that do not fill a last batch are left out of the epoch. A subclass draws an epoch, and
    makes batches of it.

    Attributes:
        images: The job's pixels.
        pace: Measures the host's time for preparing batches.
        ranks: Ranks that share each batch.

    Args:
        images: The job's pixels.
        batch_size: Images per batch.
        rows_an_image: Most images that one picture is made of.
        seed: Seed of the order and of the random changes.
        depth: Initial number of batches read ahead.
        on_depth: Called with the number of batches read ahead once it has been chosen.
    """

    def __init__(
        self,
        images: PixelSet,
        *,
        batch_size: int,
        seed: int,
        rows_an_image: int = 1,
        depth: int = DEPTH,
        on_depth: Callable[[int], None] = lambda _depth: None,
    ) -> None:
        self.images = images
        self.seed = seed
        self._epoch: OfEpoch | None = None
        self.pace = Pace()
        self.ranks = ALONE
        self.batch_size = batch_size
        self.num_batches = images.num("train") // batch_size
        most = batch_size * rows_an_image
        self._upcoming = Upcoming(
            images, self._requests, batch_size=most, depth=depth, on_depth=on_depth
        )

    def get(self, epoch: int, place: int) -> Batch:
        """Return images (B, C, S, S) and targets of a batch, both counted from 0.

        Raises:
            TrainingFailed: an image could not be read.
        """
        with self.pace.making():
            if self._epoch is None or self._epoch.number != epoch:
                self._epoch = self.draw(epoch)
            drawn, span = self._epoch, self._span(place)
            planes = self._take(drawn, place)
            images = self.images.finish_images(
                span.stop - span.start,
                lambda places: self.show(drawn, span, planes, places),
                cut=self.find_cut(drawn, span),
            )
            return images, self.find_targets(drawn, span)

    def close(self) -> None:
        """Stop reading and decoding; a later `get` starts both again."""
        self._upcoming.close()
        self.images.close()

    @abstractmethod
    def draw(self, epoch: int) -> OfEpoch:
        """Draw an epoch."""

    @abstractmethod
    def draw_rows(self, epoch: int) -> ListRows:
        """Draw the images of an epoch; called in the reading thread."""

    @abstractmethod
    def list_rows(self, drawn: OfEpoch, span: slice) -> torch.Tensor:
        """Return the rows (R,) on the host whose pixels some positions of an epoch need."""

    @abstractmethod
    def show(self, drawn: OfEpoch, span: slice, planes: torch.Tensor, places: slice) -> Shown:
        """Return some pictures of a batch, and the changes of their colours.

        Args:
            drawn: The epoch.
            span: Positions of the batch.
            planes: (R, C, S, S) uint8, all planes of the batch.
            places: Places in the batch, on one side of its cut.
        """

    def find_cut(self, drawn: OfEpoch, span: slice) -> int:  # noqa: ARG002 - for subclasses
        """Return the place that separates two kinds of pictures in a batch; 0 if there is one."""
        return 0

    @abstractmethod
    def find_targets(self, drawn: OfEpoch, span: slice) -> torch.Tensor:
        """Return the targets of a batch, the batch first."""

    def draw_colours(self, augment: ColourChanges, epoch: int, *, num: int) -> torch.Tensor | None:
        """Draw the changes of colours of an epoch's `num` positions; None if none change."""
        colours = draw_colours(
            augment,
            num=num,
            channels=self.images.image_shape[0],
            generator=self.build_generator("colour", epoch),
        )
        return None if colours is None else self.images.scale_colours(colours)

    def build_generator(self, purpose: str, epoch: int) -> torch.Generator:
        """Return the random generator of an epoch for a purpose, on the device."""
        return build_generator(self.seed, purpose, epoch, device=self.images.device)

    def _take(self, drawn: OfEpoch, place: int) -> torch.Tensor:
        """Return the planes (R, C, S, S) that a batch needs, in the order of their rows."""
        if self.images.home == "device":
            rows = self.list_rows(drawn, self._span(place))
            return self.images.select_planes(send(rows, self.images.device))
        is_last = place + 1 == self.num_batches
        following = (drawn.number + 1, 0) if is_last else (drawn.number, place + 1)
        return self._upcoming.take((drawn.number, place), following=following)

    def _span(self, place: int) -> slice:
        """Return this rank's part of a batch in its epoch's order."""
        return slice(*self.ranks.share(place * self.batch_size, (place + 1) * self.batch_size))

    def _requests(self, first: Place) -> Iterator[Request]:
        """Yield requests from a place onwards, epoch after epoch; runs in the reading thread."""
        epoch, place = first
        while True:
            list_rows = self.draw_rows(epoch)
            for number in range(place, self.num_batches):
                yield (epoch, number), list_rows(self._span(number)).tolist()
            epoch, place = epoch + 1, 0
