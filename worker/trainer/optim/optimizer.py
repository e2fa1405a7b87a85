"""The optimisers of a spec, and their state as named tensors."""

from typing import Any

import torch
from torch import nn

from redkiln.spec.optimizers import (
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lion,
    Muon,
    Optimizer,
    RmsProp,
    Sgd,
)
from worker.trainer.optim.lion import SignMomentum
from worker.trainer.optim.muon import MuonWithAdamW, from_matrix, to_matrix

AnyOptimizer = torch.optim.Optimizer | MuonWithAdamW


SHARE = "share"
"""Key of a parameter group: its learning rate as a share of the step's."""


def build_optimizer(
    model: nn.Module, settings: Optimizer, *, backbone_lr: float = 1.0
) -> AnyOptimizer:
    """Build the spec's optimiser for all parameters that are trained, with fused kernels.

    Parameters without gradient are left out.

    Args:
        model: The model; it has a `backbone` if that has its own rate.
        settings: Optimiser of the spec.
        backbone_lr: Learning rate of the backbone as a share of the others'; muon has one rate.
    """
    if isinstance(settings, Muon):
        return MuonWithAdamW(model, settings)
    parameters = _group(model, backbone_lr)
    # The other fields are named as torch names its arguments.
    shared = settings.model_dump(exclude={"name"})
    match settings:
        case AdamW():
            return torch.optim.AdamW(parameters, **shared, fused=True)
        case Adam():
            return torch.optim.Adam(parameters, **shared, fused=True)
        case Sgd():
            shared["nesterov"] = settings.nesterov and settings.momentum > 0
            return torch.optim.SGD(parameters, **shared, fused=True)
        case Adagrad():
            return torch.optim.Adagrad(parameters, **shared)
        case Adadelta():
            return torch.optim.Adadelta(parameters, **shared)
        case RmsProp():
            return torch.optim.RMSprop(parameters, **shared)
        case Adafactor():
            shared["d"] = shared.pop("clip")
            return torch.optim.Adafactor(parameters, **shared)
        case Lion():
            return SignMomentum(parameters, **shared)


def set_rate(optimizer: AnyOptimizer, lr: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(SHARE, 1.0)


def _group(model: nn.Module, backbone_lr: float) -> list[Any]:
    """Return the trained parameters, or two groups of them if the backbone has its own rate."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if backbone_lr == 1:
        return trained
    backbone = model.backbone
    assert isinstance(backbone, nn.Module)
    slow = {id(p) for p in backbone.parameters()}
    groups = [
        {"params": [p for p in trained if id(p) not in slow], SHARE: 1.0},
        {"params": [p for p in trained if id(p) in slow], SHARE: backbone_lr},
    ]
    return [group for group in groups if group["params"]]


def admit_thawed(optimizer: AnyOptimizer) -> None:
    """Prepare the optimiser for parameters that have gradients for the first time, after others.

    Torch's fused SGD requires a momentum for all parameters or for none. A zero momentum gives the
    result of a first step.
    """
    if not isinstance(optimizer, torch.optim.SGD):
        return
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            state = optimizer.state[parameter]
            if parameter.grad is not None and state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(parameter)


def optimizer_tensors(model: nn.Module, optimizer: AnyOptimizer) -> dict[str, torch.Tensor]:
    """Return the optimiser's state as `<parameter>/<key>`; keys without a tensor are left out.

    Moments have their parameter's shape, however the optimiser stores them.
    """
    return {
        f"{name}/{key}": from_matrix(parameter, value)
        if _is_matrix_of(parameter, optimizer)
        else value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: AnyOptimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Restore saved state in the parameters' memory layout, and clear other state.

    Raises:
        KeyError: a tensor does not belong to any parameter of the model.
    """
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        if parameter.requires_grad:
            optimizer.state[parameter].clear()
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        parameter = parameters[name]
        if tensor.shape == parameter.shape:
            # A fused kernel iterates over memory, so moments need their weights' layout.
            value = torch.empty_like(parameter).copy_(tensor)
            if _is_matrix_of(parameter, optimizer):
                value = to_matrix(parameter, value)
        else:
            # A step count; or Muon's momentum of a convolution from an earlier release, which is a
            # matrix and is valid in the layout that it was created in.
            value = tensor.to(parameter.device)
        optimizer.state[parameter][key] = value


def _is_matrix_of(parameter: nn.Parameter, optimizer: AnyOptimizer) -> bool:
    return isinstance(optimizer, MuonWithAdamW) and optimizer.has_matrix_of(parameter)
