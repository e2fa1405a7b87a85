"""Draws the training batches of detection: pictures with their objects, epoch after epoch.

Shapes: N positions of an epoch, B batch, Q mosaics in the batch, C channels, S side, M objects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.tasks.object_detection import DetectionAugment
from worker.trainer.detection.objects import MOST_OBJECTS, Objects, count_places
from worker.trainer.detection.views import TILES, join_tiles
from worker.trainer.images.augment.views import Views, draw_views, take_pixels
from worker.trainer.images.batches import draw_order
from worker.trainer.images.drawn_batches import DrawnBatches, ListRows
from worker.trainer.images.pixel_set import PixelSet, Shown
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.inputs import send
from worker.trainer.seeds import build_generator

PARTNERS = len(TILES) - 1


@dataclass(frozen=True)
class _Tiles:
    """The images that an epoch's pictures are made of, on the host.

    Attributes:
        rows: (N, T) int64; the first is the position's own image.
        is_mosaic: (N,) bool, whether a picture is made of all of them.
    """

    rows: NDArray[np.int64]
    is_mosaic: NDArray[np.bool_]

    def select(self, order: NDArray[np.int64]) -> "_Tiles":
        """Return the images of some positions."""
        return _Tiles(self.rows[order], self.is_mosaic[order])

    def list_rows(self, span: slice) -> torch.Tensor:
        """Return the rows whose pixels some positions need: all of each mosaic, then the others."""
        rows, is_mosaic = self.rows[span], self.is_mosaic[span]
        parts = [rows[is_mosaic].reshape(-1), rows[~is_mosaic, 0]]
        return torch.from_numpy(np.concatenate(parts))


@dataclass(frozen=True)
class _Epoch:
    """What the positions of an epoch show; mosaics come first in each batch.

    Attributes:
        views: The views; None if every picture is its image.
        views_on_host: The same on the host.
        colours: (N, C, 2 C), see `PixelSet.scale_colours`; None if none change.
    """

    number: int
    tiles: _Tiles
    views: Views | None
    views_on_host: Views | None
    colours: torch.Tensor | None


@dataclass(frozen=True)
class _Targets:
    """The targets of some batches, which are made together.

    Attributes:
        targets: (n, M, 5) on the device, with more columns if objects have masks.
        counts: (n,) objects of each picture.
        epoch: Their epoch.
        span: Their positions.
    """

    targets: torch.Tensor
    counts: NDArray[np.int64]
    epoch: int
    span: slice

    def has(self, epoch: int, span: slice) -> bool:
        """Return whether these are the targets of some positions."""
        is_inside = self.span.start <= span.start and span.stop <= self.span.stop
        return epoch == self.epoch and is_inside

    def take(self, span: slice) -> torch.Tensor:
        """Return the targets of some positions, (B, M, 5)."""
        here = slice(span.start - self.span.start, span.stop - self.span.start)
        most = count_places(int(self.counts[here].max()))
        return self.targets[here, :most].contiguous()


class DetectionBatches(DrawnBatches[_Epoch]):
    """Batches of pictures with the objects that they show, as targets (B, M, 5).

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
        super().__init__(
            images,
            batch_size=batch_size,
            rows_an_image=1 + PARTNERS if augment.mosaic else 1,
            seed=seed,
            depth=depth,
            on_depth=on_depth,
        )
        self._objects = objects
        self._augment = augment
        self._targets: _Targets | None = None
        self._mosaic_epochs = augment.mosaic_until * epochs

    def draw(self, epoch: int) -> _Epoch:
        """Draw an epoch."""
        tiles = self._draw_tiles(epoch)
        generator = partial(self.build_generator, epoch=epoch)
        views = draw_views(
            self._augment,
            is_mosaic=torch.from_numpy(tiles.is_mosaic).to(self.images.device),
            size=self.images.size,
            generator=generator,
        )
        colours = self.draw_colours(self._augment, epoch, num=len(tiles.rows))
        order = self._put_mosaics_first(tiles)
        places = send(torch.from_numpy(order), self.images.device)
        views = views and views.select(places)
        return _Epoch(
            epoch,
            tiles.select(order),
            views,
            views_on_host=views and views.to(torch.device("cpu")),  # waits once an epoch
            colours=None if colours is None else colours.index_select(0, places),
        )

    def draw_rows(self, epoch: int) -> ListRows:
        """Draw the images of an epoch."""
        tiles = self._draw_tiles(epoch)
        return tiles.select(self._put_mosaics_first(tiles)).list_rows

    def list_rows(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the rows of some positions: all of each mosaic, then the others."""
        return drawn.tiles.list_rows(span)

    def find_cut(self, drawn: _Epoch, span: slice) -> int:
        """Return the number of mosaics in a batch, which come first."""
        return int(drawn.tiles.is_mosaic[span].sum())

    def show(self, drawn: _Epoch, span: slice, planes: torch.Tensor, places: slice) -> Shown:
        """Return some pictures of a batch, and the changes of their colours."""
        cut = self.find_cut(drawn, span)
        if places.stop <= cut:
            tiles = planes[: cut * len(TILES)].view(cut, len(TILES), *planes.shape[1:])
            shown = join_tiles(tiles[places])
        else:
            shown = planes[PARTNERS * cut :][places].float()
        first, last = span.start + places.start, span.start + places.stop
        if drawn.views is not None:
            shown = take_pixels(shown, drawn.views.slice(first, last))
        return shown, None if drawn.colours is None else drawn.colours[first:last]

    def find_targets(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the objects that the pictures of a batch show, (B, M, 5)."""
        if self._targets is None or not self._targets.has(drawn.number, span):
            last = span.start // self.batch_size + self._objects.batches_at_once - 1
            stop = self._span(min(last, self.num_batches - 1)).stop
            self._targets = self._make_targets(drawn, slice(span.start, max(span.stop, stop)))
        return self._targets.take(span)

    def _make_targets(self, drawn: _Epoch, span: slice) -> _Targets:
        rows = drawn.tiles.rows[span]
        is_used = np.ones(rows.shape, dtype=np.bool_)
        is_used[:, 1:] = drawn.tiles.is_mosaic[span, None]
        places = self._objects.find_places(rows, is_used=is_used)
        views = drawn.views_on_host and drawn.views_on_host.slice(span.start, span.stop)
        targets = self._objects.find_targets(places, views)
        return _Targets(targets, places.counts, drawn.number, span)

    def _put_mosaics_first(self, tiles: _Tiles) -> NDArray[np.int64]:
        """Return an order of positions with mosaics first in each batch, or in a rank's share."""
        spans = [self._span(place) for place in range(self.num_batches)]
        ends = np.unique([[span.start, span.stop] for span in spans])
        share = np.searchsorted(ends, np.arange(len(tiles.rows)), side="right")
        return np.lexsort((~tiles.is_mosaic, share))

    def _draw_tiles(self, epoch: int) -> _Tiles:
        """Choose the images of each picture, on the host: it requests those that are on disk."""
        order = draw_order(self.images.rows["train"], seed=self.seed, epoch=epoch)
        num = len(order)
        on_host = build_generator(self.seed, "mosaic", epoch, device=torch.device("cpu"))
        partners = order[torch.randint(num, (num, PARTNERS), generator=on_host)]
        rows = torch.cat([order[:, None], partners], dim=1).numpy()
        is_mosaic = torch.rand(num, generator=on_host).numpy() < self._augment.mosaic
        if epoch >= self._mosaic_epochs:
            is_mosaic[:] = False
        is_mosaic &= self._objects.counts[rows].sum(axis=1) <= MOST_OBJECTS
        return _Tiles(rows, is_mosaic)
