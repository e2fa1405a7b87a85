"""Optimisers and learning-rate schedules of a spec.

The rate is a function of the step alone, so nothing of a schedule has to be saved.
"""

import math

import torch
from torch import nn

from redkiln.spec import AdamW, Optimizer, Schedule


def build_optimizer(model: nn.Module, settings: Optimizer) -> torch.optim.Optimizer:
    """The spec's optimiser over all of a model's parameters, in one fused kernel."""
    parameters = model.parameters()
    if isinstance(settings, AdamW):
        return torch.optim.AdamW(
            parameters,
            lr=settings.lr,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
    return torch.optim.SGD(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def learning_rate(schedule: Schedule, *, start: float, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`."""
    if schedule.name == "constant":
        return start
    return start * 0.5 * (1 + math.cos(math.pi * step / steps))


def optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, torch.Tensor]:
    """The optimiser's state as `<parameter>/<key>`; keys without a tensor are left out."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Put saved state back, laid out in memory as the parameters are.

    Raises:
        KeyError: a tensor belongs to no parameter of the model.
    """
    parameters = dict(model.named_parameters())
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        parameter = parameters[name]
        if tensor.shape == parameter.shape:
            # A fused kernel walks through memory: moments must lie as their weights do.
            value = torch.empty_like(parameter).copy_(tensor)
        else:
            value = tensor.to(parameter.device)
        optimizer.state[parameter][key] = value
