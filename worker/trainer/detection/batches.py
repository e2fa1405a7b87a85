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
from worker.trainer.detection.objects import MOST_OBJECTS, Objects
from worker.trainer.detection.views import TILES, join_tiles
from worker.trainer.images.augment.colour import apply_colours, draw_colours
from worker.trainer.images.augment.views import Views, draw_views, take_pixels
from worker.trainer.images.batches import draw_order
from worker.trainer.images.drawn_batches import DrawnBatches, ListRows
from worker.trainer.images.pixel_set import PixelSet
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

    def list_rows(self, span: slice) -> torch.Tensor:
        """Return the rows whose pixels some positions need: their own, then those of mosaics."""
        partners = self.rows[span][self.is_mosaic[span], 1:]
        return torch.from_numpy(np.concatenate([self.rows[span, 0], partners.reshape(-1)]))


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
        self._mosaic_epochs = augment.mosaic_until * epochs

    def draw(self, epoch: int) -> _Epoch:
        """Draw an epoch."""
        tiles = self._draw_tiles(epoch)
        on_device = torch.from_numpy(tiles.is_mosaic).to(self.images.device)
        generator = partial(self.build_generator, epoch=epoch)
        return _Epoch(
            epoch,
            tiles,
            views=draw_views(
                self._augment, is_mosaic=on_device, size=self.images.size, generator=generator
            ),
            colours=draw_colours(
                self._augment,
                num=len(tiles.rows),
                channels=self.images.image_shape[0],
                generator=generator("colour"),
            ),
        )

    def draw_rows(self, epoch: int) -> ListRows:
        """Draw the images of an epoch."""
        return self._draw_tiles(epoch).list_rows

    def list_rows(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the rows of some positions: their own, then those of mosaics."""
        return drawn.tiles.list_rows(span)

    def show(self, drawn: _Epoch, span: slice, planes: torch.Tensor, places: slice) -> torch.Tensor:
        """Return some pictures of a batch, (n, C, S, S) float32 from 0 to 255."""
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

    def find_targets(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the objects that the pictures of a batch show, (B, M, 5)."""
        rows = drawn.tiles.rows[span]
        is_used = np.ones(rows.shape, dtype=np.bool_)
        is_used[:, 1:] = drawn.tiles.is_mosaic[span, None]
        places = self._objects.find_places(rows, is_used=is_used)
        views = drawn.views and drawn.views.slice(span.start, span.stop)
        return self._objects.find_targets(places, views)

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
    chosen = np.flatnonzero(is_mosaic[places])
    if not len(chosen):
        return take_pixels(own, views)
    joined, alone = (
        send(torch.from_numpy(some), own.device)
        for some in (chosen, np.flatnonzero(~is_mosaic[places]))
    )
    before = int(is_mosaic[: places.start].sum())
    others = partners.view(-1, PARTNERS, *own.shape[1:])[before : before + len(chosen)]
    shown = own.new_empty(own.shape, dtype=torch.float32)
    tiles = join_tiles(own.index_select(0, joined), others)
    # To index with brackets takes a tenth longer on a CPU.
    shown.index_copy_(0, joined, take_pixels(tiles, views.select(joined)))
    single = own.index_select(0, alone)
    return shown.index_copy_(0, alone, take_pixels(single, views.select(alone)))
