import numpy as np
import pytest

from redkiln.predict.boxes.joined import join_outputs, list_found, pad_objects, split_outputs
from redkiln.predict.boxes.matching import (
    choose_threshold,
    find_agreement,
    find_score_differences,
    is_in_crowd,
    match,
)
from redkiln.predict.boxes.scores import CROWD, Detections

BOX, NEAR, FAR = (0, 0, 10, 10), (0, 0, 10, 8), (50, 50, 60, 60)


def detections(*rows):
    """Boxes, each (box, score, label)."""
    boxes, scores, labels = zip(*rows, strict=True) if rows else ((), (), ())
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(labels, np.int64),
    )


def joined(*rows, places=3):
    """One image's boxes as the array of a batch."""
    found = np.zeros((1, places, 6), np.float32)
    found[..., 5] = -1
    for place, (box, score, label) in enumerate(rows):
        found[0, place] = [*box, score, label]
    return found


def test_each_object_is_matched_once_by_the_best_box():
    truth = detections((BOX, 1, 0), (FAR, 1, 1))
    found = detections((NEAR, 0.9, 0), (BOX, 0.8, 0), (FAR, 0.7, 0), (FAR, 0.6, 1))
    assert match(found, truth, least_iou=0.5).tolist() == [0, -1, -1, 1]
    assert match(found, detections(), least_iou=0.5).tolist() == [-1] * 4
    assert match(detections(), truth, least_iou=0.5).tolist() == []


@pytest.mark.parametrize(
    ("other", "share"),
    [
        (joined((BOX, 0.9, 0), (FAR, 0.8, 1)), 1.0),
        (joined((FAR, 0.8, 1), (BOX, 0.9, 0)), 1.0),
        (joined((BOX, 0.9, 0), (FAR, 0.8, 0)), 0.5),
        (joined((NEAR, 0.9, 0), (FAR, 0.8, 1)), 0.5),
        (joined((BOX, 0.9, 0)), 2 / 3),
        (joined(), 0.0),
    ],
)
def test_boxes_of_two_runtimes_agree_one_to_one(other, share):
    assert find_agreement(joined((BOX, 0.9, 0), (FAR, 0.8, 1)), other) == pytest.approx(share)


def test_a_score_at_the_limit_finds_its_partner_below_it():
    assert find_agreement(joined((BOX, 0.0501, 0)), joined((BOX, 0.0499, 0))) == 1
    assert find_agreement(joined((FAR, 0.9, 0), (BOX, 0.04, 0)), joined((FAR, 0.9, 0))) == 1


def test_a_poor_model_has_its_best_boxes_compared():
    assert find_agreement(joined((BOX, 0.04, 0)), joined()) == 0
    assert find_agreement(joined(), joined()) == 1


def test_scores_of_partners_are_compared():
    assert find_score_differences(joined((BOX, 0.5, 0)), joined((BOX, 0.4, 0))).max() == (
        pytest.approx(0.1)
    )


def test_the_threshold_has_the_highest_f1():
    truth = [detections((BOX, 1, 0)), detections((FAR, 1, 0)), detections()]
    found = [
        detections((BOX, 0.9, 0), (FAR, 0.3, 0)),
        detections((FAR, 0.7, 0)),
        detections((BOX, 0.4, 0)),
    ]
    assert choose_threshold(found, truth, usual=0.4) == pytest.approx(0.55)
    assert choose_threshold([detections()] * 3, truth, usual=0.4) == 0.4


def test_a_box_in_a_crowd_is_not_a_mistake():
    crowd = detections(((40, 40, 100, 100), 1, CROWD))
    assert is_in_crowd(detections((FAR, 0.9, 0), (BOX, 0.9, 0)), crowd).tolist() == [True, False]
    wrong = [detections((FAR, 0.9, 0), (BOX, 0.5, 0))]
    truth = [detections((BOX, 1, 0), ((40, 40, 100, 100), 1, CROWD))]
    assert choose_threshold(wrong, truth, usual=0.4) == pytest.approx(0.5)


def test_outputs_are_joined_and_split_again():
    parts = split_outputs(joined((BOX, 0.9, 2)))
    assert parts["labels"].dtype == np.int64
    np.testing.assert_array_equal(join_outputs(list(parts.values())), joined((BOX, 0.9, 2)))
    assert [len(one.labels) for one in list_found(joined((BOX, 0.2, 2)), threshold=0.3)] == [0]
    assert pad_objects([detections(), detections((BOX, 1, 1))]).tolist() == [
        [[-1, 0, 0, 0, 0]],
        [[1, *BOX]],
    ]
