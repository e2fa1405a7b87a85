"""What a model is called with: one tensor, or several, each with the batch as its first dimension.

An image model is called as `model(images)`, one with a numeric and a categorical input as
`model(numbers, codes)`: `model(*as_parts(inputs))` in both cases.
"""

import torch

Inputs = torch.Tensor | tuple[torch.Tensor, ...]
Batch = tuple[Inputs, torch.Tensor]
"""Inputs and targets."""


def as_parts(inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """The model's arguments, by position."""
    return (inputs,) if isinstance(inputs, torch.Tensor) else inputs


def split_inputs(inputs: Inputs, parts: int) -> list[tuple[torch.Tensor, ...]]:
    """The arguments of each of so many micro steps."""
    pieces = [part.tensor_split(parts) for part in as_parts(inputs)]
    return list(zip(*pieces, strict=True))
