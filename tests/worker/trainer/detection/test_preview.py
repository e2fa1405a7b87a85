"""Pictures of true and found boxes."""

import numpy as np

from redkiln.predict.boxes.scores import CROWD, Detections
from worker.trainer.detection.preview import RIGHT_COLOUR, TRUE_COLOUR, WRONG_COLOUR, draw_boxes

TRUTH = [(4, 4, 20, 20, 0), (40, 4, 60, 24, 1)]
GREY = np.full((64, 64, 1), 90, dtype=np.uint8)


def boxes(*rows):
    """Rows of left, top, right, bottom and label."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return Detections(table[:, :4], np.ones(len(table)), table[:, 4].astype(np.int64))


def test_right_boxes_are_orange_wrong_ones_red_and_missed_objects_white():
    found = boxes((4, 4, 20, 20, 0), (40, 44, 60, 62, 1))
    drawn = draw_boxes(GREY, found, boxes(*TRUTH))
    assert tuple(drawn[4, 4]) == RIGHT_COLOUR
    assert tuple(drawn[4, 40]) == TRUE_COLOUR
    assert tuple(drawn[44, 40]) == WRONG_COLOUR


def test_a_box_of_the_wrong_class_and_a_second_box_of_an_object_are_wrong():
    found = boxes((4, 4, 20, 20, 0), (5, 5, 21, 21, 0), (40, 4, 60, 24, 0))
    drawn = draw_boxes(GREY, found, boxes(*TRUTH))
    assert tuple(drawn[21, 21]) == WRONG_COLOUR
    assert tuple(drawn[4, 40]) == WRONG_COLOUR


def test_a_box_in_a_group_is_no_mistake():
    drawn = draw_boxes(GREY, boxes((10, 10, 20, 20, 0)), boxes((5, 5, 60, 60, CROWD)))
    assert tuple(drawn[10, 10]) == RIGHT_COLOUR
