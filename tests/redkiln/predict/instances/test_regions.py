import numpy as np
import pytest

from redkiln.predict.instances.regions import (
    count_pixels,
    decode,
    encode,
    enlarge,
    find_overlaps,
)

SIDE = 12


def square(left, top, size):
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[top : top + size, left : left + size] = 1
    return mask


MASKS = np.stack([square(0, 0, 4), square(2, 0, 4), square(8, 8, 4)])


def as_coco(regions):
    return [{"size": [SIDE, SIDE], "counts": one} for one in regions]


def test_masks_come_back_from_their_runs():
    regions = encode(MASKS)
    np.testing.assert_array_equal(decode(regions, SIDE), MASKS)
    assert count_pixels(as_coco(regions)) == [16, 16, 16]


def test_no_objects_have_no_runs():
    assert encode(np.zeros((0, SIDE, SIDE), np.uint8)) == []
    assert decode([], SIDE).shape == (0, SIDE, SIDE)
    assert find_overlaps([], as_coco(encode(MASKS))).shape == (0, 3)


def test_overlaps_are_intersection_over_union():
    regions = as_coco(encode(MASKS))
    expected = [[1, 8 / 24, 0], [8 / 24, 1, 0], [0, 0, 1]]
    assert find_overlaps(regions, regions) == pytest.approx(np.array(expected))


def test_a_small_mask_is_enlarged_to_width_and_height():
    small = np.zeros((1, 2, 2), np.uint8)
    small[0, :, 0] = 255
    (large,) = enlarge(small, (8, 4))
    assert large.shape == (4, 8)
    assert large[:, :4].all()
    assert not large[:, 4:].any()
