"""Matches boxes one to one: with the truth, and those of one runtime with those of another.

Shapes: B batch, F found boxes, T true or wanted boxes, M reported boxes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import list_found
from redkiln.predict.boxes.scores import CROWD, Detections
from redkiln.predict.instances.regions import count_pixels, find_overlaps

SAME_OBJECT = 0.5
"""Smallest IoU of a found and a true box of the same object."""
SAME_BOX = 0.95
"""Smallest IoU of boxes of two runtimes that are the same box."""
COMPARED_SCORE = 0.05
"""Boxes of two runtimes with a lower score are not compared, because nobody uses them; those of a
poor model are, from half of its highest score on."""


def match(found: Detections, wanted: Detections, *, least_iou: float) -> NDArray[np.int64]:
    """Return for each found box (F,) the wanted box of the same object, each at most once, or -1.

    Boxes choose in their order, which is that of falling scores: the wanted box of the same class
    that overlaps most. Masks overlap if both have some.
    """
    overlaps = _find_overlaps(found, wanted)
    overlaps[found.labels[:, None] != wanted.labels[None]] = 0
    chosen = np.full(len(found.labels), -1, dtype=np.int64)
    if not wanted.labels.size:
        return chosen
    for place, row in enumerate(overlaps):
        best = int(row.argmax())
        if row[best] >= least_iou:
            chosen[place] = best
            overlaps[:, best] = 0
    return chosen


def is_in_crowd(found: Detections, truth: Detections) -> NDArray[np.bool_]:
    """Return whether each box (F,) is mostly inside a group, where it is not a mistake."""
    crowds = truth.boxes[truth.labels == CROWD]
    if not len(crowds):
        return np.zeros(len(found.labels), dtype=np.bool_)
    shared = _intersect(found.boxes, crowds)
    inside: NDArray[np.bool_] = shared.max(axis=1) >= SAME_OBJECT * np.maximum(
        _areas(found.boxes), 1e-9
    )
    return inside


def find_agreement(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the share of boxes (B, M, 6) of two runtimes that have a partner; 1 without boxes.

    A box with a score just above the limit may find its partner just below it.
    """
    least = _find_least(one, other)
    num = partners = 0
    for ours, theirs in zip(list_found(one), list_found(other), strict=True):
        for first, second in ((ours, theirs), (theirs, ours)):
            is_compared = first.scores >= least
            num += int(is_compared.sum())
            partners += int((match(first, second, least_iou=SAME_BOX)[is_compared] >= 0).sum())
    return partners / num if num else 1.0


def find_score_differences(
    one: NDArray[np.float32], other: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return |difference| of the scores of boxes (B, M, 6) that have a partner."""
    least, differences = _find_least(one, other), [np.zeros(1)]
    for ours, theirs in zip(list_found(one), list_found(other), strict=True):
        partners = match(ours, theirs, least_iou=SAME_BOX)
        some = (partners >= 0) & (ours.scores >= least)
        differences.append(np.abs(ours.scores[some] - theirs.scores[partners[some]]))
    return np.concatenate(differences).astype(np.float64)


def _find_least(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the score from which boxes are compared."""
    scores = [each.scores.max(initial=0) for joined in (one, other) for each in list_found(joined)]
    return min(COMPARED_SCORE, float(max(scores)) / 2)


def choose_threshold(
    found: Sequence[Detections], truth: Sequence[Detections], *, usual: float
) -> float:
    """Return the score from which boxes give the highest F1 with the truth.

    Args:
        found: Boxes of each image.
        truth: Objects of each image.
        usual: Threshold to return if no box is right.
    """
    scores: list[NDArray[np.floating]] = [np.empty(0)]
    rights = [np.empty(0, dtype=np.bool_)]
    for here, true in zip(found, truth, strict=True):
        is_right = match(here, true, least_iou=SAME_OBJECT) >= 0
        counts = is_right | ~is_in_crowd(here, true)
        scores.append(here.scores[counts])
        rights.append(is_right[counts])
    falling = np.argsort(-np.concatenate(scores), kind="stable")
    ordered, right = np.concatenate(scores)[falling], np.concatenate(rights)[falling]
    if not right.any():
        return usual
    num = sum(int((true.labels >= 0).sum()) for true in truth)
    f1 = 2 * right.cumsum() / (np.arange(1, len(right) + 1) + num)
    best = int(f1.argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else ordered[best]
    return round(float((ordered[best] + below) / 2), 4)


def _find_overlaps(found: Detections, wanted: Detections) -> NDArray[np.float64]:
    """Return the IoU (F, T) of masks, or of boxes: without masks, or if both are empty."""
    boxes = find_ious(found.boxes, wanted.boxes)
    if found.regions is None or wanted.regions is None:
        return boxes
    regions = found.list_regions(), wanted.list_regions()
    is_empty = [np.array(count_pixels(each)) == 0 for each in regions]
    both = is_empty[0][:, None] & is_empty[1][None]
    return np.where(both, boxes, find_overlaps(*regions))


def find_ious(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the intersection over union of boxes (F, 4) and (T, 4): (F, T)."""
    shared = _intersect(one, other)
    union = _areas(one)[:, None] + _areas(other)[None] - shared
    ious: NDArray[np.float64] = shared / np.maximum(union, 1e-9)
    return ious


def _intersect(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    areas: NDArray[np.float64] = np.maximum(high - low, 0).astype(np.float64).prod(axis=2)
    return areas


def _areas(boxes: NDArray[np.floating]) -> NDArray[np.float64]:
    sides: NDArray[np.float64] = (boxes[:, 2:] - boxes[:, :2]).astype(np.float64)
    areas: NDArray[np.float64] = sides.prod(axis=1)
    return areas
