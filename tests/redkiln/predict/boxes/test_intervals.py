"""Intervals of average precisions: images are matched once, and each resample is scored as COCO."""

import numpy as np
import pytest

from redkiln.predict.boxes.intervals import find_box_intervals
from redkiln.predict.boxes.scores import CROWD, Detections, MatchedImages, score_detections
from redkiln.predict.instances.regions import encode

SIDE = 64
NUM_CLASSES = 4
"""One class more than occurs."""


def draw(rng, num, *, labels):
    """Draw whole-pixel boxes in a square of `SIDE`, with the pixels that they cover."""
    corners = rng.integers(0, SIDE - 8, (num, 2))
    ends = np.minimum(corners + rng.integers(4, 40, (num, 2)), SIDE)
    boxes = np.concatenate([corners, ends], axis=1)
    return boxes, rng.choice(labels, num), [rectangle(box) for box in boxes]


def rectangle(box):
    left, top, right, bottom = box
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    mask[top:bottom, left:right] = True
    return encode(mask[None])[0]


@pytest.fixture(scope="module")
def images():
    """40 images with 0 to 4 objects, some of them crowds; most are found, with false alarms."""
    rng = np.random.default_rng(0)
    found, truth = [], []
    for _ in range(40):
        boxes, labels, regions = draw(rng, rng.integers(0, 5), labels=[0, 1, 2, CROWD])
        truth.append(Detections(boxes, np.ones(len(boxes)), labels, regions, SIDE))
        more, theirs, theirs_regions = draw(rng, rng.integers(1, 4), labels=[0, 1, 2])
        is_seen = labels != CROWD
        scores = np.sort(rng.uniform(size=is_seen.sum() + len(more)))[::-1]
        found.append(
            Detections(
                np.concatenate([boxes[is_seen], more]),
                scores,
                np.concatenate([labels[is_seen], theirs]),
                [*np.array(regions, dtype=object)[is_seen], *theirs_regions],
                SIDE,
            )
        )
    return found, truth


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_a_resample_of_matched_images_scores_as_if_it_were_matched_afresh(images, kind):
    found, truth = images
    matched = MatchedImages(found, truth, num_classes=NUM_CLASSES, kind=kind)
    rng = np.random.default_rng(1)
    for _ in range(3):
        places = rng.integers(len(found), size=len(found))
        pair = [found[place] for place in places], [truth[place] for place in places]
        afresh = score_detections(*pair, num_classes=NUM_CLASSES, kind=kind)
        assert matched.score(places) == pytest.approx(afresh, abs=1e-12)
        assert 0 < afresh["map"] < 1


def test_images_without_objects_score_zero(images):
    found, truth = images
    empty = [place for place, image in enumerate(truth) if not (image.labels >= 0).any()]
    matched = MatchedImages(found, truth, num_classes=NUM_CLASSES)
    places = np.resize(empty, len(found))
    assert matched.score(places) == {"map": 0, "map50": 0, "map75": 0}


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_an_interval_contains_the_score_and_is_the_same_every_time(images, kind):
    found, truth = images
    score = score_detections(found, truth, num_classes=NUM_CLASSES, kind=kind)
    intervals = find_box_intervals(found, truth, num_classes=NUM_CLASSES, kind=kind)
    assert intervals == find_box_intervals(found, truth, num_classes=NUM_CLASSES, kind=kind)
    for name, (low, high) in intervals.items():
        assert 0 <= low < score[name] < high <= 1
    assert set(intervals) == {"map", "map50", "map75"}
