"""Cuts the mask of each object out of its image, and finds the box around it.

Shapes: H and W height and width of the displayed image, h and w those of an object's box.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from redkiln.annotations import Box, ObjectMask
from redkiln.predict.masks.coding import pack_mask
from service.datasets.inspect.boxes.frame import displayed_size
from service.datasets.inspect.boxes.placing import Placing
from service.datasets.inspect.boxes.written import WrittenBox, WrittenImage
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.limits import GIB
from service.datasets.inspect.masks.painting import BadRegion, draw_region
from service.datasets.inspect.masks.reading import TURNS, Mask, reduce_mask
from service.datasets.inspect.report import refuse

MOST_BYTES = 2 * GIB
"""Size of all packed masks together."""


@dataclass
class MaskPlacing(Placing):
    """Places the objects of images one by one by their regions, and counts what happened."""

    packed_bytes: int = 0

    def _place(
        self,
        image: WrittenImage,
        written: Sequence[WrittenBox],
        facts: ImageFacts,
        *,
        is_turned: bool,
    ) -> list[Box]:
        size = image.size or displayed_size(facts)
        kept: dict[tuple[object, ...], Box] = {}
        for one in written:
            try:
                mask = _draw(one, size)
            except BadRegion as bad:
                self.faults.add("bad_region", bad.message, bad.place)
                continue
            if is_turned:
                turned = Image.fromarray(mask).transpose(TURNS[facts.orientation])
                mask = np.asarray(turned)
            box = _cut_out(mask, label=self.labels[one.class_name], crowd=one.crowd)
            assert box.mask is not None
            key = (box.label, box.xyxy, box.crowd, box.mask.packed)
            if key in kept:
                self.num_repeated += 1
                continue
            kept[key] = box
            self.packed_bytes += len(box.mask.packed)
            if self.packed_bytes > MOST_BYTES:
                message = "the masks together are too large; use fewer or smaller images"
                raise refuse("too_large", message)
        return list(kept.values())


def _draw(one: WrittenBox, size: tuple[int, int]) -> Mask:
    """Return the mask (H, W) of an object, 1 for its pixels.

    Raises:
        BadRegion: It has no pixel in the image, or is for another size.
    """
    mask = np.zeros(size[::-1], dtype=np.uint8)
    mask.reshape(-1)[draw_region(one, size)] = 1
    return mask


def _cut_out(mask: Mask, *, label: int, crowd: bool) -> Box:
    """Return an object whose mask (H, W) has a pixel: the smallest box, and its pixels (h, w)."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    left, right = int(columns[0]), int(columns[-1]) + 1
    inside = reduce_mask(mask[top:bottom, left:right])
    packed = ObjectMask(packed=pack_mask(inside), size=(inside.shape[1], inside.shape[0]))
    return Box(label=label, xyxy=(left, top, right, bottom), crowd=crowd, mask=packed)
