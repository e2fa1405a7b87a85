import torch

from worker.trainer.detection.boxes import box_giou, box_iou
from worker.trainer.detection.selection import OVERLAP, select_boxes


def suppress_greedily(boxes, scores, threshold):
    """The definition: take the best box, drop those like it, and repeat."""
    pairs = [
        (float(scores[cell, label]), cell, label)
        for cell in range(len(boxes))
        for label in range(scores.shape[1])
        if scores[cell, label] >= threshold
    ]
    kept = []
    for score, cell, label in sorted(pairs, reverse=True):
        if all(
            label != other or box_iou(boxes[cell], boxes[taken]) <= OVERLAP
            for _, taken, other in kept
        ):
            kept.append((score, cell, label))
    return [(round(score, 6), boxes[cell].tolist(), label) for score, cell, label in kept]


def test_batches_are_suppressed_like_one_box_after_the_other():
    torch.manual_seed(0)
    corners = torch.rand(3, 40, 2) * 50
    boxes = torch.cat([corners, corners + 10 + 20 * torch.rand(3, 40, 2)], dim=-1)
    scores = torch.rand(3, 40, 2)
    found = select_boxes(boxes, scores, threshold=0.4)
    for image in range(3):
        expected = suppress_greedily(boxes[image], scores[image], 0.4)
        rows = [
            (round(float(score), 6), box.tolist(), int(label))
            for box, score, label in zip(*(part[image] for part in found), strict=True)
            if label >= 0
        ]
        assert rows == expected
        assert 0 < len(rows) < (scores[image] >= 0.4).sum()


def test_missing_boxes_have_no_score_and_no_label():
    boxes = torch.tensor([[[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]]])
    found, scores, labels = select_boxes(boxes, torch.tensor([[[0.9], [0.1]]]), threshold=0.5)
    assert found.shape == (1, 100, 4)
    assert (scores[0] > 0).tolist() == [True] + [False] * 99
    assert labels[0].tolist() == [0] + [-1] * 99
    assert found[0, 1:].abs().sum() == 0


def test_boxes_that_do_not_touch_are_compared_by_their_distance():
    box = torch.tensor([0.0, 0.0, 10.0, 10.0])
    near, far = torch.tensor([12.0, 0.0, 22.0, 10.0]), torch.tensor([50.0, 0.0, 60.0, 10.0])
    assert box_iou(box, near) == box_iou(box, far) == 0
    assert box_giou(box, box) == 1
    assert -1 < box_giou(box, far) < box_giou(box, near) < 0
