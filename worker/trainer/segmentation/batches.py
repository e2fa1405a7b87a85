"""Draws the training batches of segmentation: pictures with their masks, epoch after epoch.

Shapes: N positions of an epoch, B batch, C channels, S side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from redkiln.annotations import IGNORED
from redkiln.tasks.semantic_segmentation import SegmentationAugment
from worker.trainer.images.augment.views import Views, draw_views, take_labels, take_pixels
from worker.trainer.images.batches import draw_order
from worker.trainer.images.drawn_batches import DrawnBatches, ListRows
from worker.trainer.images.pixel_set import Shown
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.segmentation.samples import SegmentationSamples


@dataclass(frozen=True)
class _Epoch:
    """What the positions of an epoch show.

    Attributes:
        rows: (N,) int64 on the host.
        views: The views; None if every picture is its image.
        colours: (N, C, 2 C), see `PixelSet.scale_colours`; None if none change.
    """

    number: int
    rows: torch.Tensor
    views: Views | None
    colours: torch.Tensor | None


class SegmentationBatches(DrawnBatches[_Epoch]):
    """Batches of pictures with the masks that they show, as targets (B, S, S) uint8.

    Args:
        samples: The job's images and masks.
        batch_size: Images per batch.
        augment: Augmentation from the spec.
        seed: Seed of the order and of the random changes.
        depth: Initial number of batches read ahead.
        on_depth: Called with the number of batches read ahead once it has been chosen.
    """

    def __init__(
        self,
        samples: SegmentationSamples,
        *,
        batch_size: int,
        augment: SegmentationAugment,
        seed: int,
        depth: int = DEPTH,
        on_depth: Callable[[int], None] = lambda _depth: None,
    ) -> None:
        super().__init__(
            samples.images, batch_size=batch_size, seed=seed, depth=depth, on_depth=on_depth
        )
        self._masks = samples.masks
        self._augment = augment

    def draw(self, epoch: int) -> _Epoch:
        """Draw an epoch."""
        rows = self._draw_order(epoch)
        generator = partial(self.build_generator, epoch=epoch)
        nothing = torch.zeros(len(rows), dtype=torch.bool, device=self.images.device)
        return _Epoch(
            epoch,
            rows,
            views=draw_views(
                self._augment, is_mosaic=nothing, size=self.images.size, generator=generator
            ),
            colours=self.draw_colours(self._augment, epoch, num=len(rows)),
        )

    def draw_rows(self, epoch: int) -> ListRows:
        """Draw the images of an epoch."""
        order = self._draw_order(epoch)
        return lambda span: order[span]

    def list_rows(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the rows of some positions."""
        return drawn.rows[span]

    def show(self, drawn: _Epoch, span: slice, planes: torch.Tensor, places: slice) -> Shown:
        """Return some pictures of a batch, and the changes of their colours."""
        first, last = span.start + places.start, span.start + places.stop
        shown = planes[places].float()
        if drawn.views is not None:
            shown = take_pixels(shown, drawn.views.slice(first, last))
        return shown, None if drawn.colours is None else drawn.colours[first:last]

    def find_targets(self, drawn: _Epoch, span: slice) -> torch.Tensor:
        """Return the masks that the pictures of a batch show, (B, S, S) uint8."""
        masks = self._masks.select(drawn.rows[span])
        if drawn.views is None:
            return masks
        views = drawn.views.slice(span.start, span.stop)
        return take_labels(masks, views, outside=IGNORED)

    def _draw_order(self, epoch: int) -> torch.Tensor:
        return draw_order(self.images.rows["train"], seed=self.seed, epoch=epoch)
