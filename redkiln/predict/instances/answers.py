"""Masks of objects that people have drawn: a folder of images with a COCO file, to be scored on.

Shapes: H and W height and width of the upright image, S side of the square, M objects.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from redkiln import coco
from redkiln.predict.boxes.answers import BoxAnswers, Judged
from redkiln.predict.boxes.located import LocatedPixels, LocatedPreparation
from redkiln.predict.boxes.scores import Detections, Kind
from redkiln.predict.instances.regions import encode, read_region
from redkiln.predict.masks.coding import Mask


class InstanceAnswers(BoxAnswers):
    """The objects of the images in a folder with the pixels of each; see `BoxAnswers`."""

    kind: Kind = "segm"

    def fit(self, path: str, sample: LocatedPixels, preparation: LocatedPreparation) -> Detections:
        """Return the objects of an image with their pixels, in pixels of the model's square.

        Raises:
            ValueError: The model does not know the class of an object, or its pixels cannot be
                read.
        """
        objects = self.list_objects(path)
        parts = [_cut_out(one, size=sample.size) for one in objects]
        corners = np.array([box for _, box in parts], np.float64).reshape(-1, 4)
        placed = self.place(objects, corners, sample, preparation)
        side = len(sample.pixels)
        masks = [preparation.place_part(mask, box, sample) for mask, box in parts]
        regions = encode(np.stack(masks)) if masks else []
        return replace(placed, regions=regions, side=side)

    def judge(self, output: Any, truth: Detections) -> Judged:
        """Return what `sum_up` needs of an image; see `RegionAnswers`."""
        return output, truth


def _cut_out(
    one: coco.CocoObject, *, size: tuple[int, int]
) -> tuple[Mask, tuple[int, int, int, int]]:
    """Return the pixels of an object in the smallest box around them, and that box."""
    mask = read_region(one.segmentation, size)
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        raise ValueError("an object of it has no pixel in the image")
    left, top, right, bottom = (
        int(end) for end in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    )
    return mask[top:bottom, left:right], (left, top, right, bottom)
