"""The objects of all images with their masks, and the targets of a batch.

Targets are those of detection with the pixels of each object as further columns (`bits.py`). Masks
of the table have half of the side that the model sees, those of targets a quarter, which is the
side of the masks that the model returns.

Shapes: B batch, M most objects of a picture in the batch, R side of the masks in the table, T side
of those in targets, S side of the square in pixels.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.failure import FailureCode
from redkiln.predict.boxes.scores import Detections
from redkiln.predict.instances.regions import encode
from redkiln.predict.masks.coding import unpack_mask
from redkiln.predict.masks.fitting import part_to_square
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.detection.objects import NOTHING, Objects, Places
from worker.trainer.detection.views import TILES
from worker.trainer.images.augment.views import Views
from worker.trainer.inputs import send
from worker.trainer.instances.bits import pack_bits, unpack_bits

TABLE, TARGET = 2, 4
"""Pixels of the square along a side of a pixel of a mask: in the table, and in targets."""


class MaskedObjects(Objects):
    """Objects with masks; see `Objects`.

    Args:
        index: The data set, whose boxes have masks.
        pixel_format: The squares.
        device: Device that batches are used on.

    Raises:
        TrainingFailed: an image has too many objects, or a mask of the index is damaged.
    """

    batches_at_once = 1  # masks are large

    def __init__(
        self, index: DetectionIndex, pixel_format: PixelFormat, *, device: torch.device
    ) -> None:
        super().__init__(index, pixel_format, device=device)
        self._format, self._images = pixel_format, index.splits["train"] + index.splits["test"]
        side = pixel_format.size // TABLE
        draw = partial(draw_object, pixel_format=pixel_format, side=side)
        rows = [
            np.packbits(draw(image, box).reshape(-1))
            for image in self._images
            for box in image.boxes
        ]
        empty = np.zeros((1, side * side // 8), dtype=np.uint8)
        self._masks = np.concatenate([np.stack(rows), empty]) if rows else empty

    def find_targets(self, places: Places, views: Views | None) -> torch.Tensor:
        """Return targets (B, M, 5 + T * T / 16), without objects of which no pixel is shown."""
        targets = super().find_targets(places, views)
        side = self._format.size
        packed = targets.new_zeros(*targets.shape[:2], (side // TARGET) ** 2 // 16)
        tiles = send(torch.from_numpy(places.tiles), self.device)
        views = views and views.to(self.device)
        for place, rows in enumerate(places.objects):
            num = int((rows >= 0).sum())
            if not num:
                continue
            masks = torch.from_numpy(np.unpackbits(self._masks[rows[:num]], axis=1))
            masks = masks.to(targets.device).view(num, side // TABLE, side // TABLE)
            view = None if views is None else views.slice(place, place + 1)
            shown = move_masks(masks, tiles[place, :num], view, side=side // TARGET).flatten(1)
            packed[place, :num] = pack_bits(shown)
            is_seen = (shown > 0).any(dim=1)
            targets[place, :num, 0] = torch.where(is_seen, targets[place, :num, 0], float(NOTHING))
        return torch.cat([targets, packed], dim=-1)

    def complete(self, targets: torch.Tensor) -> torch.Tensor:
        """Return made-up targets (B, M, 5) with all columns: each object fills the picture."""
        side = self._format.size // TARGET
        masks = pack_bits(targets.new_ones(1, side * side))
        return torch.cat([targets, masks[0].expand(*targets.shape[:2], -1)], dim=-1)

    def get_truth(self, row: int) -> Detections:
        """Return the objects of an image, with crowds and with their pixels in the square."""
        known, image, side = super().get_truth(row), self._images[row], self._format.size
        draw = partial(draw_object, pixel_format=self._format, side=side)
        masks = [draw(image, box) for box in image.boxes]
        regions = encode(np.stack(masks)) if masks else []
        return Detections(known.boxes, known.scores, known.labels, regions, side)


def read_masks(targets: torch.Tensor) -> torch.Tensor:
    """Return the masks (m, T, T) uint8 of targets (m, 5 + T * T / 16)."""
    pixels = unpack_bits(targets[:, 5:])
    side = round(pixels.shape[1] ** 0.5)
    return pixels.view(-1, side, side)


def draw_object(
    image: AnnotatedImage, box: Box, *, pixel_format: PixelFormat, side: int
) -> NDArray[np.uint8]:
    """Return the pixels of an object in the model's square, (side, side) of 0 and 1.

    Args:
        image: Its image.
        box: The object.
        pixel_format: How the image becomes square.
        side: Side of the mask, which has fewer pixels than the square or as many.

    Raises:
        TrainingFailed: the mask is damaged.
    """
    assert pixel_format.resize != "crop"
    assert box.mask is not None
    try:
        inside = unpack_mask(box.mask.packed, box.mask.size)
    except ValueError as error:
        message = f"the index of the data set is damaged: {image.path}: {error}; push it again"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, path=image.path) from error
    size = image.width, image.height
    return part_to_square(inside, box.xyxy, size, side, pixel_format.resize)


def move_masks(
    masks: torch.Tensor, tiles: torch.Tensor, view: Views | None, *, side: int
) -> torch.Tensor:
    """Return masks of a picture's objects as it shows them, (M, T, T) uint8.

    Args:
        masks: (M, R, R) uint8, each in the square of its image.
        tiles: (M,) int64, which image of the picture each is from.
        view: The picture's view; None if it is its image.
        side: T.
    """
    num, length, _ = masks.shape
    shown = ((torch.arange(side, device=masks.device) + 0.5) / side).expand(num, 2, side)
    if view is not None:
        corners = send(torch.tensor(TILES), masks.device)[tiles]  # (M, 2)
        shown = view.slope[:, :, None] * shown + view.start[:, :, None] - corners[:, :, None]
    is_inside = (shown >= 0) & (shown < 1)
    places = (shown * length).long().clamp(0, length - 1)
    taken = masks.gather(1, places[:, 1, :, None].expand(-1, -1, length))
    taken = taken.gather(2, places[:, 0, None, :].expand(-1, side, -1))
    return taken * (is_inside[:, 1, :, None] & is_inside[:, 0, None, :])
