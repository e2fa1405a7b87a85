"""Runs and polygons become the pixels that COCO's own program finds."""

import numpy as np
import pytest
from pycocotools import mask as coco_masks

from service.datasets.inspect.boxes.written import Runs, WrittenBox
from service.datasets.inspect.masks.painting import draw_region

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy keyword"  # of pycocotools' masks
)
SIZE = (60, 44)


def draw(region, size=SIZE):
    """The mask (H, W) of a region."""
    one = WrittenBox(class_name="car", xyxy=(0, 0, 1, 1), place="here", region=region)
    mask = np.zeros(size[::-1], dtype=np.uint8)
    mask.reshape(-1)[draw_region(one, size)] = 1
    return mask


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_compressed_runs_are_cocos_mask(share):
    random = np.random.default_rng(0)
    mask = (random.random(SIZE[::-1]) < share).astype(np.uint8)
    theirs = coco_masks.encode(np.asfortranarray(mask))
    runs = Runs(size=tuple(theirs["size"]), counts=theirs["counts"].decode())
    np.testing.assert_array_equal(draw(runs), mask)


def test_plain_runs_are_cocos_mask():
    counts = [100, 7, 300, 60, 2173]
    theirs = coco_masks.frPyObjects({"size": SIZE[::-1], "counts": counts}, *SIZE[::-1])
    ours = draw(Runs(size=SIZE[::-1], counts=tuple(counts)))
    np.testing.assert_array_equal(ours, coco_masks.decode(theirs))


@pytest.mark.parametrize("seed", range(8))
def test_a_polygon_covers_what_cocos_does_up_to_a_pixel_of_its_border(seed):
    # COCO rounds corners to fifths of a pixel; ours takes the pixels whose centres are inside.
    random = np.random.default_rng(seed)
    angles = np.sort(random.uniform(0, 2 * np.pi, 9))
    radii = random.uniform(6, 21, 9)
    points = np.stack([30 + radii * np.cos(angles), 22 + radii * np.sin(angles)], axis=1)
    outline = points.reshape(-1).tolist()
    ours = draw([outline])
    theirs = coco_masks.decode(coco_masks.frPyObjects([outline], *SIZE[::-1]))[..., 0]
    inner, outer = theirs, theirs
    for axis in (0, 1):
        inner = inner & np.roll(inner, 1, axis) & np.roll(inner, -1, axis)
        outer = outer | np.roll(outer, 1, axis) | np.roll(outer, -1, axis)
    assert (ours >= inner).all()
    assert (ours <= outer).all()
    assert (ours != theirs).sum() < 0.1 * theirs.sum()
