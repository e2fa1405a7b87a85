"""Makes the mask of each image of a data set, in its displayed frame.

A written mask is for the picture as it is displayed, or as the camera stored it (`boxes/frame.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from redkiln.annotations import MOST_MASK_SIDE
from service.datasets.inspect.boxes.frame import choose_frame, displayed_size
from service.datasets.inspect.boxes.text import BadText
from service.datasets.inspect.boxes.written import Faults, WrittenImage
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.painting import paint
from service.datasets.inspect.masks.png import read_mask
from service.datasets.inspect.source import Source

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns a stored picture upright, by its EXIF orientation."""
Mask = NDArray[np.uint8]


@dataclass
class Masks:
    """Makes masks one by one, and counts what happened.

    Attributes:
        labels: Label by name of the class.
        faults: Regions that cannot be used.
        source: The data set, from which masks that are pictures are read.
        pictures: The mask of each image by the image's position; None if masks are painted.
        num_turned: Images whose masks were written for the stored picture.
    """

    labels: Mapping[str, int]
    faults: Faults
    source: Source
    limits: Limits
    pictures: Mapping[int, Entry] | None = None
    num_turned: int = 0

    def make(self, image: WrittenImage, facts: ImageFacts) -> Mask:
        """Return the mask of an image, in the displayed frame and not larger than an index allows.

        Raises:
            BadText: The annotations do not fit the image, or its mask cannot be read.
        """
        if self.pictures is not None:
            entry = self.pictures[image.position]
            mask = read_mask(self.source, entry, num_classes=len(self.labels), limits=self.limits)
            place, size = entry.path, (mask.shape[1], mask.shape[0])
        else:
            mask, place, size = None, image.place, image.size or displayed_size(facts)
        frame = choose_frame(size, [box.xyxy for box in image.boxes], facts)
        if frame is None:
            width, height = displayed_size(facts)
            raise BadText(
                f"its mask has {size[0]} x {size[1]} pixels, but its image has {width} x {height}; "
                "use the image that was annotated, or scale the mask",
                place,
            )
        if mask is None:
            mask, bad = paint(image.boxes, size, self.labels)
            for fault in bad:
                self.faults.add("bad_region", fault.message, fault.place)
        if frame == "stored" and facts.orientation in TURNS:
            self.num_turned += 1
            mask = np.asarray(Image.fromarray(mask).transpose(TURNS[facts.orientation]))
        return reduce_mask(mask)


def reduce_mask(mask: Mask) -> Mask:
    """Return a mask whose longer side is at most `MOST_MASK_SIDE`, by the nearest pixels."""
    if max(mask.shape) <= MOST_MASK_SIDE:
        return mask
    image = Image.fromarray(mask)
    size = ImageOps.contain(image, (MOST_MASK_SIDE, MOST_MASK_SIDE)).size
    return np.asarray(image.resize(size, Image.Resampling.NEAREST))


def pair_masks(
    masks: Sequence[Entry], positions: Sequence[int | None]
) -> tuple[dict[int, Entry], list[Entry]]:
    """Return the mask of each image by the image's position, and the masks without an image.

    Args:
        masks: The masks.
        positions: Position of the image of each; None if it is missing.
    """
    pairs: dict[int, Entry] = {}
    lonely = []
    for entry, position in zip(masks, positions, strict=True):
        if position is None or position in pairs:
            lonely.append(entry)
        else:
            pairs[position] = entry
    return pairs, lonely


def count_labels(mask: Mask) -> Iterator[tuple[int, int]]:
    """Yield each value of a mask with the number of its pixels, the values rising."""
    counts = np.bincount(mask.reshape(-1), minlength=256)
    for label in np.flatnonzero(counts).tolist():
        yield label, int(counts[label])
