"""Places for the labels of boxes."""

import itertools
import random

import pytest

from redkiln.predict.boxes.labels import place_labels

PICTURE = (200, 100)
SIZE = (40, 10)


def spread(count):
    """Boxes anywhere in the picture, also at its borders."""
    draw = random.Random(count)
    for _ in range(count):
        left, top = draw.randrange(0, 190), draw.randrange(0, 90)
        yield (left, top, min(200, left + draw.randrange(5, 90)), min(100, top + 30))


def overlap(one, other):
    return abs(one[0] - other[0]) < SIZE[0] and abs(one[1] - other[1]) < SIZE[1]


@pytest.mark.parametrize(
    "boxes",
    [[(50, 40, 120, 80)] * 20, [(0, 0, 200, 100)] * 12, [(190, 0, 200, 5)] * 8, list(spread(20))],
    ids=["one place", "the whole picture", "a corner", "anywhere"],
)
def test_labels_are_inside_the_picture_and_cover_no_other_label(boxes):
    places = place_labels(boxes, [SIZE] * len(boxes), PICTURE)
    assert all(0 <= x <= 160 and 0 <= y <= 90 for x, y in places)
    assert not any(overlap(*pair) for pair in itertools.combinations(places, 2))


def test_a_label_is_above_its_box_then_below_then_inside():
    boxes = [(50, 40, 90, 80)] * 4
    assert place_labels(boxes, [SIZE] * 4, PICTURE) == [(50, 30), (50, 80), (50, 40), (50, 70)]


def test_a_picture_without_a_free_place_still_gets_all_labels():
    places = place_labels([(0, 0, 40, 10)] * 3, [SIZE] * 3, (40, 10))
    assert places == [(0, 0)] * 3


def test_a_label_that_is_wider_than_the_picture_begins_at_its_left_border():
    assert place_labels([(10, 5, 20, 8)], [(90, 4)], (30, 20)) == [(0, 5)]
