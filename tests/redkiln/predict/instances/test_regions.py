import numpy as np
import pytest

from redkiln.predict.instances.regions import (
    count_pixels,
    decode,
    encode,
    enlarge,
    find_overlaps,
    read_region,
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


WIDE = (8, 4)
"""Width and height of an image whose right half is an object."""


@pytest.mark.parametrize(
    "region",
    [
        [[4, 0, 8, 0, 8, 4, 4, 4]],
        [[4, 0, 8, 0, 8, 2, 4, 2], [4, 2, 8, 2, 8, 4, 4, 4]],  # two outlines of one object
        {"counts": [16, 16], "size": [4, 8]},
        {"counts": "`0`0", "size": [4, 8]},
    ],
)
def test_the_pixels_of_an_object_are_read_in_each_form_of_coco(region):
    wanted = np.zeros(WIDE[::-1], np.uint8)
    wanted[:, 4:] = 1
    np.testing.assert_array_equal(read_region(region, WIDE), wanted)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (None, "neither polygons nor runs"),
        ([], "neither polygons nor runs"),
        ([[1, 2, 3, 4]], "neither polygons nor runs"),
        ([[1, 2, 3, 4, float("nan"), 6]], "neither polygons nor runs"),
        ({"counts": [-1, 33], "size": [4, 8]}, "neither polygons nor runs"),
        ({"counts": [16, 16], "size": [8, 4]}, "are not those of 8 x 4 pixels"),
        ({"counts": [16], "size": [4, 8]}, "decoded 16 pixels but expected 32"),
        ({"counts": "zz", "size": [4, 8]}, "decoded"),
    ],
)
def test_what_is_not_a_region_is_refused(region, message):
    with pytest.raises(ValueError, match=message):
        read_region(region, WIDE)
