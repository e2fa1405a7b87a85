"""Masks of objects as runs, enlarged, saved, matched and scored."""

import numpy as np
import pytest

from redkiln.predict.boxes.matching import find_agreement, match
from redkiln.predict.boxes.scores import CROWD, Detections, score_detections
from redkiln.predict.instances.joined import (
    OUTPUTS,
    as_array,
    list_objects,
    load_found,
    load_truth,
    save_found,
    save_truth,
)
from redkiln.predict.instances.regions import decode, encode, enlarge

SIDE = 32


def block(left, top, right, bottom):
    """A mask (SIDE, SIDE) that fills a rectangle."""
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    mask[top:bottom, left:right] = 1
    return mask


def detections(*masks, labels=None, scores=None):
    """Objects with masks, and the boxes around them."""
    boxes = [
        [np.nonzero(m)[1].min(), np.nonzero(m)[0].min(), *(np.argwhere(m).max(axis=0)[::-1] + 1)]
        for m in masks
    ]
    num = len(masks)
    return Detections(
        np.array(boxes, dtype=np.float32).reshape(-1, 4),
        np.array(scores or [1.0] * num, dtype=np.float32),
        np.array(labels or [0] * num, dtype=np.int64),
        encode(np.stack(masks)) if masks else [],
        SIDE,
    )


def test_runs_keep_every_pixel():
    masks = (np.random.default_rng(0).random((5, SIDE, SIDE)) < 0.4).astype(np.uint8)
    np.testing.assert_array_equal(decode(encode(masks), SIDE), masks)
    assert decode([], SIDE).shape == (0, SIDE, SIDE)


def test_enlarged_masks_have_the_pixels_that_are_more_likely_inside():
    small = np.zeros((1, 8, 8), dtype=np.uint8)
    small[0, 2:6, 2:6] = 255
    large = enlarge(small, (SIDE, SIDE))[0]
    assert large[8:24, 8:24].mean() > 0.95
    assert not large[:8].any()
    assert not large[24:].any()


def test_a_file_s_outputs_become_objects():
    masks = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    masks[0, 0, :4] = 255
    parts = {
        "boxes": np.zeros((2, 3, 4), np.float32),
        "scores": np.array([[0.9, 0, 0], [0, 0, 0]], np.float32),
        "labels": np.array([[1, -1, -1], [-1, -1, -1]]),
        "masks": masks,
    }
    first, second = list_objects([parts[name] for name in OUTPUTS], side=SIDE)
    assert (first.labels.tolist(), len(first.regions)) == ([1], 1)
    assert int(decode(first.regions, SIDE).sum()) == SIDE * SIDE // 2
    assert (second.labels.tolist(), second.regions) == ([], [])


def test_objects_are_saved_as_plain_arrays():
    found = as_array([detections(block(0, 0, 8, 8), block(4, 4, 9, 20)), detections()])
    truth = as_array([detections(block(1, 1, 5, 5), labels=[CROWD]), detections(block(2, 2, 9, 9))])
    arrays = {**save_found(found, most=4), **save_truth(truth)}
    assert all(array.dtype != object for array in arrays.values())
    again = load_found(arrays, side=SIDE), load_truth(arrays, side=SIDE)
    assert not arrays
    for objects, known in zip(again, (found, truth), strict=True):
        for one, other in zip(objects, known, strict=True):
            np.testing.assert_array_equal(one.boxes, other.boxes)
            assert one.labels.tolist() == other.labels.tolist()
            assert list(one.regions) == list(other.regions)
    assert load_found({}, side=SIDE) is None


def test_masks_are_matched_and_not_their_boxes():
    corner = block(0, 0, 16, 16)
    corner[4:, 4:] = 0  # the same box, with few of its pixels
    whole, angle = detections(block(0, 0, 16, 16)), detections(corner)
    np.testing.assert_array_equal(whole.boxes, angle.boxes)
    assert match(angle, whole, least_iou=0.5).tolist() == [-1]
    assert match(whole, whole, least_iou=0.5).tolist() == [0]
    assert find_agreement(as_array([whole]), as_array([angle])) == 0
    assert find_agreement(as_array([whole]), as_array([whole])) == 1


def test_average_precision_of_masks_differs_from_that_of_boxes():
    corner = block(0, 0, 16, 16)
    corner[4:, 4:] = 0
    pair = [detections(corner)], [detections(block(0, 0, 16, 16))]
    assert score_detections(*pair, num_classes=1)["map"] == pytest.approx(1)
    assert score_detections(*pair, num_classes=1, kind="segm")["map"] == 0
    same = [detections(block(3, 3, 9, 20))]
    assert score_detections(same, same, num_classes=1, kind="segm")["map"] == pytest.approx(1)
