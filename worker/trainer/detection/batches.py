"""Draws the training batches of detection: pictures with their objects, epoch after epoch.

Shapes: N positions of an epoch, B batch, Q mosaics in the batch, C channels, S side, M objects.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.tasks.object_detection import DetectionAugment
from worker.trainer.detection.objects import MOST_OBJECTS, Objects
from worker.trainer.detection.views import (
    TILES,
    Views,
    draw_views,
    join_tiles,
    move_targets,
    take_pixels,
)
from worker.trainer.images.augment.colour import apply_colours, draw_colours
from worker.trainer.images.batches import draw_order
from worker.trainer.images.pixel_set import PixelSet
from worker.trainer.images.rows.prefetch import Request
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.images.upcoming import Place, Upcoming
from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator

PARTNERS = len(TILES) - 1
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class _Tiles:
    """The images that an epoch's pictures are made of, on the host.

    Attributes:
        rows: (N, T) int64; the first is the position's own image.
        is_mosaic: (N,) bool, whether a picture is made of all of them.
    """

    rows: NDArray[np.int64]
    is_mosaic: NDArray[np.bool_]

    def list_rows(self, span: slice) -> NDArray[np.int64]:
        """Return the rows whose pixels some positions need: their own, then those of mosaics."""
        partners = self.rows[span][self.is_mosaic[span], 1:]
        return np.concatenate([self.rows[span, 0], partners.reshape(-1)])


@dataclass(frozen=True)
class _Epoch:
    """What the positions of an epoch show.

    Attributes:
        views: The views; None if every picture is its image.
        colours: (N, C, C + 1), see `worker.trainer.images.augment.colour`; None if none change.
    """

    number: int
    tiles: _Tiles
    views: Views | None
    colours: torch.Tensor | None


class DetectionBatches:
    """Shuffled, augmented batches, each a function of (seed, epoch, place).

    Images that do not fill a last batch are left out of the epoch.

    Attributes:
        pace: Measures the host's time for preparing batches.
        ranks: Ranks that share each batch.

    Args:
        images: The job's pixels.
        objects: The job's objects.
        batch_size: Images per batch.
        augment: Augmentation from the spec.
        seed: Seed of the order and of the random changes.
        epochs: Epochs of the training, which decide when mosaics end.
        depth: Initial number of batches read ahead.
        on_depth: Called with the number of batches read ahead once it has been chosen.
    """

    def __init__(
        self,
        images: PixelSet,
        objects: Objects,
        *,
        batch_size: int,
        augment: DetectionAugment,
        seed: int,
        epochs: int,
        depth: int = DEPTH,
        on_depth: Callable[[int], None] = lambda _depth: None,
    ) -> None:
        self._images = images
        self._objects = objects
        self._augment = augment
        self._seed = seed
        self._mosaic_epochs = augment.mosaic_until * epochs
        self._epoch: _Epoch | None = None
        self.pace = Pace()
        self.ranks = ALONE
        self.batch_size = batch_size
        self.num_batches = images.num("train") // batch_size
        most = batch_size * (1 + PARTNERS) if augment.mosaic else batch_size
        self._upcoming = Upcoming(
            images, self._requests, batch_size=most, depth=depth, on_depth=on_depth
        )

    def get(self, epoch: int, place: int) -> Batch:
        """Return images (B, C, S, S) and targets (B, M, 5) of a batch, both counted from 0.

        Raises:
            TrainingFailed: an image could not be read.
        """
        with self.pace.making():
            drawn, span = self._drawn(epoch), self._span(place)
            planes = self._take(drawn, place)
            images = self._images.finish_images(
                span.stop - span.start, lambda places: self._show(drawn, span, planes, places)
            )
            return images, self._find_targets(drawn, span)

    def close(self) -> None:
        """Stop reading and decoding; a later `get` starts both again."""
        self._upcoming.close()
        self._images.close()

    def _take(self, drawn: _Epoch, place: int) -> torch.Tensor:
        """Return the planes (B + 3 Q, C, S, S) that a batch needs, in the order of their rows."""
        if self._images.home == "device":
            rows = torch.from_numpy(drawn.tiles.list_rows(self._span(place)))
            return self._images.select_planes(rows.to(self._images.device))
        is_last = place + 1 == self.num_batches
        following = (drawn.number + 1, 0) if is_last else (drawn.number, place + 1)
        return self._upcoming.take((drawn.number, place), following=following)

    def _show(
        self, drawn: _Epoch, span: slice, planes: torch.Tensor, places: slice
    ) -> torch.Tensor:
        """Return some pictures of a batch, (n, C, S, S) float32 from 0 to 255.

        Args:
            drawn: The epoch.
            span: Positions of the batch.
            planes: All planes of the batch.
            places: Places in the batch.
        """
        first, last = span.start + places.start, span.start + places.stop
        own, partners = planes[: span.stop - span.start], planes[span.stop - span.start :]
        if drawn.views is None:
            shown = own[places].float()
        else:
            views, is_mosaic = drawn.views.slice(first, last), drawn.tiles.is_mosaic[span]
            shown = _show_views(own[places], partners, views, is_mosaic, places)
        if drawn.colours is not None:
            shown = apply_colours(shown, drawn.colours[first:last])
        return shown

    def _find_targets(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        rows = drawn.tiles.rows[span]
        is_used = np.ones(rows.shape, dtype=np.bool_)
        is_used[:, 1:] = drawn.tiles.is_mosaic[span, None]
        places = self._objects.find_places(rows, is_used=is_used)
        targets = self._objects.select(places)
        if drawn.views is None:
            return targets
        views = drawn.views.slice(span.start, span.stop)
        return move_targets(targets, places.tiles, views)

    def _span(self, place: int) -> slice:
        """Return this rank's part of a batch in its epoch's order."""
        return slice(*self.ranks.share(place * self.batch_size, (place + 1) * self.batch_size))

    def _requests(self, first: Place) -> Iterator[Request]:
        """Yield requests from a place onwards, epoch after epoch; runs in the reading thread."""
        epoch, place = first
        while True:
            tiles = self._draw_tiles(epoch)
            for number in range(place, self.num_batches):
                yield (epoch, number), tiles.list_rows(self._span(number)).tolist()
            epoch, place = epoch + 1, 0

    def _drawn(self, epoch: int) -> _Epoch:
        if self._epoch is None or self._epoch.number != epoch:
            self._epoch = self._draw(epoch)
        return self._epoch

    def _draw(self, epoch: int) -> _Epoch:
        device = self._images.device

        def generator(purpose: str) -> torch.Generator:
            return build_generator(self._seed, purpose, epoch, device=device)

        tiles = self._draw_tiles(epoch)
        on_device = torch.from_numpy(tiles.is_mosaic).to(device)
        return _Epoch(
            epoch,
            tiles,
            views=draw_views(
                self._augment, is_mosaic=on_device, size=self._images.size, generator=generator
            ),
            colours=draw_colours(
                self._augment,
                num=len(tiles.rows),
                channels=self._images.image_shape[0],
                generator=generator("colour"),
            ),
        )

    def _draw_tiles(self, epoch: int) -> _Tiles:
        """Choose the images of each picture, on the host: it requests those that are on disk."""
        order = draw_order(self._images.rows["train"], seed=self._seed, epoch=epoch)
        num = len(order)
        on_host = build_generator(self._seed, "mosaic", epoch, device=torch.device("cpu"))
        partners = order[torch.randint(num, (num, PARTNERS), generator=on_host)]
        rows = torch.cat([order[:, None], partners], dim=1).numpy()
        is_mosaic = torch.rand(num, generator=on_host).numpy() < self._augment.mosaic
        if epoch >= self._mosaic_epochs:
            is_mosaic[:] = False
        is_mosaic &= self._objects.counts[rows].sum(axis=1) <= MOST_OBJECTS
        return _Tiles(rows, is_mosaic)


def _show_views(
    own: torch.Tensor,
    partners: torch.Tensor,
    views: Views,
    is_mosaic: NDArray[np.bool_],
    places: slice,
) -> torch.Tensor:
    """Return what the views of some pictures of a batch show, (n, C, S, S) float32.

    Args:
        own: (n, C, S, S) uint8, the pictures' own images.
        partners: (3 Q, C, S, S) uint8, three other images of each mosaic in the batch.
        views: Views of the n pictures.
        is_mosaic: (B,), which pictures of the batch are mosaics.
        places: Places of the n pictures in the batch.
    """
    shown = take_pixels(own, views)
    chosen = np.flatnonzero(is_mosaic[places])
    if not len(chosen):
        return shown
    before, joined = int(is_mosaic[: places.start].sum()), torch.from_numpy(chosen).to(own.device)
    others = partners.view(-1, PARTNERS, *own.shape[1:])[before : before + len(chosen)]
    tiles = torch.cat([own[joined][:, None], others], dim=1)
    shown[joined] = take_pixels(join_tiles(tiles), views.select(joined))
    return shown
