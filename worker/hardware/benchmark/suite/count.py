"""Counts the operations and the memory traffic of a network, on its real layers."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

TRAINING_FACTOR = 3.0
"""A training step computes each product once forward and twice backward."""


def count_flop(model: nn.Module, batch: torch.Tensor) -> float:
    """Count the floating-point operations of one forward pass; a multiply-add counts as two."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(batch)
    return float(counter.get_total_flops()) + _count_lstms(model, batch)


def count_bytes(model: nn.Module, batch: torch.Tensor, *, repeats: int = 1) -> float:
    """Count the bytes that the layers of one forward pass read and write, without any fusion.

    Fused kernels move less, so the arithmetic intensity that follows is a lower bound.

    Args:
        model: The network.
        batch: Inputs of one pass.
        repeats: How many times as large the real batch is; weights are read once for all of it.
    """
    moved = 0.0

    def add(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        nonlocal moved
        weights = sum(p.numel() * p.element_size() for p in module.parameters(recurse=False))
        moved += weights + repeats * (_size(inputs) + _size(output))

    leaves = [module for module in model.modules() if not any(True for _ in module.children())]
    handles = [leaf.register_forward_hook(add) for leaf in leaves]
    try:
        with torch.no_grad():
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    return moved


def _count_lstms(model: nn.Module, batch: torch.Tensor) -> float:
    """Count what the counter of torch lacks: four gates of two products for each step."""
    rows = batch.shape[0] * batch.shape[1] if batch.dim() == 3 else 0
    return float(
        sum(
            2 * rows * 4 * layer.hidden_size * (layer.input_size + layer.hidden_size)
            for layer in model.modules()
            if isinstance(layer, nn.LSTM)
        )
    )


def _size(value: object) -> float:
    if isinstance(value, torch.Tensor):
        return float(value.numel() * value.element_size())
    return sum(map(_size, value)) if isinstance(value, tuple | list) else 0.0
