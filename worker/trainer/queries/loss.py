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


def compute_alone() -> None:
    """Let a rank compute the library's losses without waiting for other ranks.

    Problem: RF-DETR's losses add up the objects of all ranks. Each rank would have to compute as
    many losses as the others, but shares of a batch can have different numbers of micro steps, and
    only one rank scores the validation split: it would wait forever.
    Applies to: the losses of RF-DETR in transformers 5.23.
    Effect: a rank divides by the objects of its own micro step, as a single process does.
    Remove when: the library takes the number of objects as an argument.
    """
    from transformers.loss import loss_lw_detr, loss_rf_detr

    modules: list[Any] = [loss_lw_detr, loss_rf_detr]
    for module in modules:
        module._is_torch_distributed_initialized = lambda: False


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
