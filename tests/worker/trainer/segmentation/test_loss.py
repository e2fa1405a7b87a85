"""The loss of a segmenter, and its network."""

import numpy as np
import pytest
import torch

from redkiln.annotations import IGNORED
from redkiln.predict.masks.scores import count_pixels
from redkiln.tasks.semantic_segmentation import SegmentationTraining
from worker.trainer.segmentation.evaluate import count_on_device
from worker.trainer.segmentation.loss import SegmentationLoss, build_segmentation_loss
from worker.trainer.segmentation.segmenter import Segmenter

K, S = 3, 6


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, K, S, S, generator=generator)
    labels = torch.randint(K, (4, S, S), generator=generator, dtype=torch.uint8)
    labels[0, :2] = IGNORED
    return logits, labels


def test_right_answers_cost_nothing(batch):
    labels = batch[1]
    sure = torch.nn.functional.one_hot(labels.where(labels != IGNORED, 0).long(), K) * 100.0
    assert SegmentationLoss(dice_weight=1.0)(sure.movedim(-1, 1), labels) < 1e-5


def test_ignored_pixels_change_neither_the_loss_nor_its_gradient(batch):
    logits, labels = batch
    logits.requires_grad_(True)
    loss = SegmentationLoss(dice_weight=1.0)(logits, labels)
    loss.backward()
    assert (logits.grad[0, :, :2] == 0).all()
    assert (logits.grad[1] != 0).any()
    changed = logits.detach().clone()
    changed[0, :, :2] = 7
    assert SegmentationLoss(dice_weight=1.0)(changed, labels) == pytest.approx(loss.item())


def test_the_parts_of_a_batch_add_up_to_the_same_loss(batch):
    logits, labels = batch
    loss = SegmentationLoss(dice_weight=0.7, weights=torch.tensor([0.5, 1.0, 2.0]))
    parts = [loss(logits[at : at + 2], labels[at : at + 2]) for at in (0, 2)]
    assert loss(logits, labels) == pytest.approx(float(sum(parts)) / 2)


def test_an_image_without_a_known_pixel_costs_nothing(batch):
    logits, labels = batch
    loss = SegmentationLoss(dice_weight=1.0)(logits, torch.full_like(labels, IGNORED))
    assert loss == 0


def test_rare_classes_count_more_with_balanced_weights(batch):
    logits, labels = batch
    training = SegmentationTraining(class_weights="balanced", dice_weight=0)
    loss = build_segmentation_loss(
        training, classes=["a", "b", "c"], counts=[80, 10, 10], device=logits.device
    )
    rare, common = torch.full_like(labels[:1], 1), torch.zeros_like(labels[:1])
    even = torch.zeros(1, K, S, S)
    assert loss(even, rare) == pytest.approx(8 * float(loss(even, common)))


def test_pixels_are_counted_on_the_device_as_on_the_host(batch):
    logits, labels = batch
    found = logits.argmax(dim=1)
    counts = count_on_device(found, labels, K)
    expected = count_pixels(found.numpy().astype(np.uint8), labels.numpy(), K)
    np.testing.assert_array_equal(counts.numpy(), expected)


def test_a_network_returns_logits_of_each_pixel():
    segmenter = Segmenter("unet-nano", num_classes=5, channels=1, image_size=64).eval()
    assert segmenter(torch.rand(2, 1, 64, 64)).shape == (2, 5, 64, 64)
