"""The arguments of a model: one tensor, or several, with the batch as their first dimension.

An image model is called as `model(images)`, one with numeric and categorical inputs as
`model(numbers, codes)`; `model(*as_parts(inputs))` covers both.
"""

import torch

Inputs = torch.Tensor | tuple[torch.Tensor, ...]
Batch = tuple[Inputs, torch.Tensor]
"""Inputs and targets."""


def as_parts(inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Return the model's positional arguments."""
    return (inputs,) if isinstance(inputs, torch.Tensor) else inputs


def split_inputs(inputs: Inputs, parts: int) -> list[tuple[torch.Tensor, ...]]:
    """Split the arguments into those of each micro step."""
    pieces = [part.tensor_split(parts) for part in as_parts(inputs)]
    return list(zip(*pieces, strict=True))


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor of the host to the device, without waiting for a GPU's queued work.

    A copy from pageable memory would wait, so the tensor goes through pinned memory, which torch
    reuses only after the copy.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor).to(device, non_blocking=True)
