import pytest
import torch

from redkiln.predict.boxes.scores import CROWD
from worker.trainer.detection.detector import BINS, Detector
from worker.trainer.detection.loss import DetectionLoss

SIDE = 64
BOX = [8.0, 16.0, 40.0, 48.0]


def build(**arguments):
    torch.manual_seed(0)
    detector = Detector("dense-nano", num_classes=2, channels=3, image_size=SIDE)
    return detector, DetectionLoss(detector, objects_an_image=1.0, **arguments)


def targets_of(*images):
    """Targets of images, each a list of (label, box)."""
    most = max(8, *map(len, images))
    table = torch.zeros(len(images), most, 5)
    table[..., 0] = -1
    for number, image in enumerate(images):
        for place, (label, box) in enumerate(image):
            table[number, place] = torch.tensor([label, *box])
    return table


def predict(detector, label, box, *, certainty=6.0):
    """An output that says what the object is and where, from the coarse cells inside its box."""
    raw = torch.full((1, len(detector.points), 4 * BINS + 2), 0.0)
    raw[..., 4 * BINS :] = -8.0
    left, top, right, bottom = box
    x, y = detector.points.unbind(1)
    inside = (x > left) & (x < right) & (y > top) & (y < bottom) & (detector.strides > 8)
    sides = torch.stack([x - left, y - top, right - x, bottom - y], dim=1)
    distances = (sides / detector.strides[:, None]).clamp(0, BINS - 1)
    bins = torch.arange(BINS)
    logits = -((bins - distances[..., None]) ** 2) * 4
    raw[0, inside, : 4 * BINS] = logits[inside].flatten(1)
    raw[0, inside, 4 * BINS + label] = certainty
    return raw


def test_a_right_output_costs_less_than_a_wrong_class_or_place_or_silence():
    detector, loss = build()
    target = targets_of([(1, BOX)])
    right = loss(predict(detector, 1, BOX), target)
    for wrong in (
        predict(detector, 0, BOX),
        predict(detector, 1, [20.0, 20.0, 60.0, 60.0]),
        predict(detector, 1, BOX, certainty=-8.0),
    ):
        assert right < 0.5 * loss(wrong, target)


def test_the_losses_of_the_parts_of_a_batch_add_up_to_that_of_the_whole():
    detector, loss = build()
    raw = detector(torch.rand(4, 3, SIDE, SIDE)).detach()
    targets = targets_of(
        [(0, BOX)], [], [(1, BOX), (0, [0.0, 0.0, 30.0, 30.0])], [(1, [30.0, 30.0, 60.0, 60.0])]
    )
    parts = [loss(raw[place : place + 1], targets[place : place + 1]) for place in range(4)]
    assert float(loss(raw, targets)) == pytest.approx(float(sum(parts)) / 4, rel=1e-5)


def test_it_falls_when_one_batch_is_learned():
    detector, loss = build()
    images = torch.rand(2, 3, SIDE, SIDE)
    targets = targets_of([(0, BOX)], [(1, [30.0, 4.0, 60.0, 30.0])])
    optimizer = torch.optim.AdamW(detector.parameters(), lr=2e-3)
    losses = []
    for _ in range(40):
        value = loss(detector(images), targets)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    assert losses[-1] < 0.4 * losses[0]
    assert sorted(losses[::10], reverse=True) == losses[::10]


def test_boxes_that_fit_badly_count_less_in_training_but_not_in_validation():
    detector, training = build()
    _, validation = build(is_equal=True)
    target = targets_of([(1, BOX)])
    near = [12.0, 20.0, 44.0, 52.0]
    far = [16.0, 16.0, 24.0, 24.0]
    ratios = []
    for box in (near, far):
        raw = predict(detector, 1, box)
        ratios.append(float(training(raw, target) / validation(raw, target)))
    assert ratios[1] < ratios[0] < 1


def test_images_without_objects_teach_silence_alone():
    detector, loss = build()
    raw = detector(torch.rand(2, 3, SIDE, SIDE))
    loss(raw, targets_of([], [])).backward()
    assert detector.head.to_logits.weight.grad.abs().sum() > 0
    assert not detector.head.to_distances.weight.grad.any()


def test_cells_inside_a_crowd_have_no_loss():
    detector, loss = build(has_crowds=True)
    seen = predict(detector, 0, BOX)
    empty = targets_of([])
    crowd = targets_of([(CROWD, [0.0, 8.0, 48.0, 56.0])])
    assert float(loss(seen, crowd)) < 0.1 * float(loss(seen, empty))


def test_thousands_of_objects_cost_finite_numbers():
    detector, loss = build()
    corners = torch.rand(1, 1000, 2) * 60
    sides = 0.01 + 4 * torch.rand(1, 1000, 2)
    labels = torch.randint(2, (1, 1000, 1)).float()
    raw = detector(torch.rand(1, 3, SIDE, SIDE))
    value = loss(raw, torch.cat([labels, corners, corners + sides], dim=2))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(p.grad).all() for p in detector.parameters() if p.grad is not None)
