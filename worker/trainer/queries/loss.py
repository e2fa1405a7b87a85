"""The library's own loss of a detector, computed in float32.

Shapes: B batch, M objects of an image, Q queries.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Labels = list[dict[str, torch.Tensor]]


def list_labels(targets: torch.Tensor, *, image_size: int) -> Labels:
    """Return targets (B, M, 5) as the library takes them, without crowds and empty places.

    Boxes become centre, width and height as shares of the side, (m, 4).
    """
    labels = []
    for table in targets:
        objects = table[table[:, 0] >= 0]
        low, high = objects[:, 1:3] / image_size, objects[:, 3:5] / image_size
        boxes = torch.cat([(low + high) / 2, high - low], dim=1)
        labels.append({"class_labels": objects[:, 0].long(), "boxes": boxes})
    return labels


def make_exact(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss function of the library that computes in float32 under autocast, too."""
    return partial(_compute, loss)


def _compute(
    loss: Callable[..., Any],
    logits: torch.Tensor,
    *others: Any,
    **named: Any,
) -> Any:
    with torch.autocast(logits.device.type, enabled=False):
        return loss(
            logits.float(),
            *(_with_groups(_as_float(one), num_queries=logits.shape[1]) for one in others),
            **{name: _as_float(value) for name, value in named.items()},
        )


def _with_groups(config: Any, *, num_queries: int) -> Any:
    """Return a configuration with the groups that the queries really have; others unchanged.

    RF-DETR has several groups of queries in training and one afterwards, and its loss always
    expects those of training.
    """
    if not hasattr(config, "group_detr") or num_queries > config.num_queries:
        return config
    single = copy.copy(config)
    single.group_detr = 1
    return single


def _as_float(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_float(one) for one in value]
    is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.float() if is_number else value
