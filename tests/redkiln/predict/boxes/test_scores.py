import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from redkiln.predict.boxes.scores import (
    CROWD,
    Detections,
    _write_found,
    _write_truth,
    score_detections,
)


def detections(*rows):
    """Rows of left, top, right, bottom, score, label."""
    table = np.array(rows, dtype=float).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


BOX = (10, 10, 50, 50)
TRUTH = [detections((*BOX, 1, 0), (60, 60, 90, 90, 1, 1)), detections((*BOX, 1, 1))]


def score(found, truth=TRUTH):
    return score_detections(found, truth, num_classes=3)


def test_the_truth_itself_scores_one():
    assert score(TRUTH) == pytest.approx({"map": 1, "map50": 1, "map75": 1})


def test_a_missed_class_costs_its_share_and_absent_classes_count_nothing():
    found = [detections((*BOX, 0.9, 0)), detections()]
    assert score(found) == pytest.approx({"map": 0.5, "map50": 0.5, "map75": 0.5})


def test_a_loose_box_counts_only_for_a_loose_threshold():
    loose = detections((10, 10, 50, 66, 0.9, 0), (60, 60, 90, 90, 0.8, 1))
    assert score([loose, TRUTH[1]])["map50"] == pytest.approx(1)
    assert score([loose, TRUTH[1]])["map75"] == pytest.approx(0.5)


def test_a_false_alarm_costs_more_the_more_certain_it_is():
    def with_alarm(certainty):
        return score([detections((*BOX, 0.8, 0), (70, 0, 99, 30, certainty, 0)), detections()])

    assert with_alarm(0.9)["map"] < with_alarm(0.1)["map"]


def test_a_detection_inside_a_crowd_is_not_a_false_alarm():
    found = [detections((*BOX, 0.8, 0), (70, 10, 90, 30, 0.9, 0))]
    alone, crowd = detections((*BOX, 1, 0)), (65, 5, 95, 35, 1, CROWD)
    with_crowd = detections((*BOX, 1, 0), crowd)
    assert score(found, [alone])["map50"] == pytest.approx(0.5, abs=0.01)
    assert score(found, [with_crowd])["map50"] == pytest.approx(1)


def test_images_without_objects_score_zero_and_do_not_fail():
    assert score([detections()], [detections()]) == {"map": 0, "map50": 0, "map75": 0}
    assert score([detections((*BOX, 0.9, 0))], [detections()])["map"] == 0


def test_nothing_found_scores_zero():
    assert score([detections(), detections()])["map50"] == 0


def draw_boxes(random, num, *, side=300):
    corners = random.uniform(0, side / 2, (num, 2))
    return np.hstack([corners, corners + random.uniform(2, side / 2, (num, 2))])


def draw_image(random):
    """Some objects, one of them a crowd, and detections near and far from them."""
    truth = draw_boxes(random, int(random.integers(1, 9)))
    labels = random.integers(0, 3, len(truth))
    moved = truth + random.normal(0, 4, truth.shape)
    found = np.vstack([moved, draw_boxes(random, 5)])
    right = np.where(random.random(len(truth)) < 0.8, labels, random.integers(0, 3, len(truth)))
    called = np.concatenate([right, random.integers(0, 3, 5)])
    is_crowd = np.arange(len(truth)) == (0 if random.random() < 0.5 else -1)
    return (
        Detections(found, random.random(len(found)), called),
        Detections(truth, np.ones(len(truth)), np.where(is_crowd, CROWD, labels)),
    )


def test_scores_are_those_of_cocos_own_program():
    random = np.random.default_rng(0)
    found, truth = zip(*(draw_image(random) for _ in range(30)), strict=True)
    annotated = COCO()
    annotated.dataset = dict(_write_truth(truth, num_classes=3))
    annotated.createIndex()
    theirs = COCOeval(annotated, annotated.loadRes(_write_found(found)), "bbox")
    theirs.evaluate()
    theirs.accumulate()
    theirs.summarize()
    ours = score_detections(found, truth, num_classes=3, by_size=True)
    names = ["map", "map50", "map75", "map_small", "map_medium", "map_large"]
    assert [ours[name] for name in names] == pytest.approx(theirs.stats[:6].tolist(), abs=1e-9)
    assert 0.1 < ours["map"] < ours["map50"] < 0.9
