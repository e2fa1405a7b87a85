"""RF-DETR with masks: its loss, its objects, and its heads."""

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.worker.trainer.instances.conftest import MASK_SIDE, build
from tests.worker.trainer.queries.conftest import CLASSES, SIDE
from worker.trainer.instances.evaluate import evaluate_instances, find_masks
from worker.trainer.queries.detector import QueryLoss


@pytest.fixture(scope="module")
def detector():
    return build().eval()


@pytest.fixture
def images():
    return torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


def test_training_lowers_the_loss_of_masks_and_boxes(images, targets):
    detector = build().train()
    optimizer = torch.optim.Adam(detector.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = detector(images, targets).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-4:]) < 0.95 * sum(losses[:4])
    assert detector.network.segmentation_bias.grad is not None


def test_a_batch_without_objects_has_a_loss(images, targets):
    targets[..., 0] = -1
    detector = build().train()
    loss = detector(images, targets).mean()
    loss.backward()
    assert torch.isfinite(loss)


def test_it_answers_as_the_library_does(detector, images, targets):
    with torch.no_grad():
        alone, compared = detector(images), detector(images, targets)
    for one, other in zip(
        detector.find_instances(alone, threshold=0.0),
        detector.find_instances(compared, threshold=0.0),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_each_box_has_the_mask_of_its_query(detector, images):
    with torch.no_grad():
        raw = detector(images)
        outputs = detector.network(pixel_values=images)
    boxes, scores, labels, masks = detector.find_instances(raw, threshold=0.0)
    assert masks.shape == (2, 100, MASK_SIDE, MASK_SIDE)
    assert masks.dtype == torch.uint8
    every = outputs.logits.sigmoid()
    for image in range(2):
        for place in range(5):
            query, label = divmod(
                int(every[image].flatten().argsort(descending=True)[place]), CLASSES
            )
            assert int(labels[image, place]) == label
            assert float(scores[image, place]) == pytest.approx(float(every[image, query, label]))
            wanted = (255 * outputs.pred_masks[image, query].sigmoid()).round()
            assert (masks[image, place].float() - wanted).abs().max() <= 1
    missing = detector.num_queries * CLASSES
    assert (labels[:, missing:] == -1).all()
    assert not masks[:, missing:].any()
    assert not boxes[:, missing:].any()


def test_heads_do_not_depend_on_the_chosen_queries(detector, images):
    other = copy.deepcopy(detector)
    with torch.no_grad():
        other.network.model.class_embed.weight.zero_()  # of the decoder, behind the choice
        heads = [each.find_compared(each(images)) for each in (detector, other)]
    assert torch.equal(*heads)
    assert heads[0].shape[1] > 0


def test_the_loss_of_a_validation_is_the_same_each_time_and_leaves_no_trace(
    detector, images, targets
):
    with torch.no_grad():
        truth = find_masks(detector, detector(images), threshold=0.0)

    def score():
        return evaluate_instances(
            detector,
            [((images, targets), targets)],
            loss=QueryLoss(),
            list_truth=lambda: truth,
            autocast=lambda: torch.autocast("cpu", enabled=False),
            should_stop=lambda: False,
        )

    before = torch.get_rng_state()
    first = score()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert score() == first
    assert {"loss", "map", "map50", "map75", "box_map", "box_map50", "box_map75"} == set(first)


def test_a_copy_can_be_sent_to_another_process(detector, images):
    with torch.no_grad():
        copied = pickle.loads(pickle.dumps(detector))
        assert torch.equal(copied(images), detector(images))


def test_found_masks_are_as_large_as_the_square(detector, images):
    with torch.no_grad():
        found = find_masks(detector, detector(images), threshold=0.0)
    assert [one.side for one in found] == [SIDE, SIDE]
    assert all(len(one.regions) == len(one.labels) for one in found)
    assert all(np.isfinite(one.scores).all() for one in found)
