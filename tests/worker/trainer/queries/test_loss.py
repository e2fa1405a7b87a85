"""Targets as the library takes them, and its loss in float32."""

import torch

from worker.trainer.queries.loss import list_labels, make_exact


class Config:
    num_queries, group_detr = 4, 3


def test_targets_become_shares_of_the_side_without_crowds(targets):
    first, second = list_labels(targets, image_size=64)
    assert first["class_labels"].tolist() == [0, 2]
    assert first["boxes"].tolist() == [[0.25, 0.5, 0.25, 0.5], [0.5, 0.25, 1.0, 0.5]]
    assert second["boxes"].shape == (0, 4)


def test_the_loss_is_computed_in_float32_with_the_groups_that_exist():
    def loss(logits, labels, device, boxes, config, other, *, named):
        assert {logits.dtype, boxes.dtype, other.dtype, named.dtype} == {torch.float32}
        assert not torch.is_autocast_enabled("cpu")
        return config.group_detr

    half = torch.zeros(2, 4, 3, dtype=torch.bfloat16)
    exact = make_exact(loss)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert exact(half, [], None, half, Config(), half, named=half) == 1
        many = half.repeat(1, 3, 1)
        assert exact(many, [], None, many, Config(), many, named=many) == 3
