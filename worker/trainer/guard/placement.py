"""Checks that all tensors of a training are on the right device."""

from collections.abc import Iterable

import torch
from torch import nn

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.inputs import Inputs, as_parts
from worker.trainer.optim.optimizer import AnyOptimizer, optimizer_tensors

MAX_NAMED = 3


def check_model(model: nn.Module, device: torch.device) -> None:
    """Check every parameter and buffer.

    Raises:
        TrainingFailed: one is on another device.
    """
    named = [*model.named_parameters(), *model.named_buffers()]
    _refuse(find_misplaced(named, device), device, "the model's ")


def check_batch(inputs: Inputs, targets: torch.Tensor, device: torch.device) -> None:
    """Check a batch as the model receives it; several inputs are named by their position.

    Raises:
        TrainingFailed: a part of it is on another device.
    """
    parts = as_parts(inputs)
    names = ["inputs"] if len(parts) == 1 else [f"inputs[{place}]" for place in range(len(parts))]
    named = [*zip(names, parts, strict=True), ("targets", targets)]
    _refuse(find_misplaced(named, device), device, "the batch's ")


def check_optimizer(model: nn.Module, optimizer: AnyOptimizer, device: torch.device) -> None:
    """Check every moment of the optimiser; a step count may be a number on the host.

    Raises:
        TrainingFailed: one is on another device.
    """
    moments = [(n, t) for n, t in optimizer_tensors(model, optimizer).items() if t.dim() > 0]
    _refuse(find_misplaced(moments, device), device, "the optimiser's ")


def find_misplaced(
    named: Iterable[tuple[str, torch.Tensor]], device: torch.device
) -> dict[str, torch.device]:
    """Return the names and devices of tensors on another device."""
    return {name: tensor.device for name, tensor in named if not _is_on(tensor.device, device)}


def _is_on(found: torch.device, wanted: torch.device) -> bool:
    # `cuda` without an index is the current device, which open_device has set.
    return found.type == wanted.type and (found.index or 0) == (wanted.index or 0)


def _refuse(misplaced: dict[str, torch.device], device: torch.device, whose: str) -> None:
    if not misplaced:
        return
    named = [f"{name} on {where}" for name, where in list(misplaced.items())[:MAX_NAMED]]
    more = len(misplaced) - len(named)
    listed = ", ".join(named) + (f" and {more} more" if more else "")
    message = (
        f"the job should train on {device}, but these tensors are elsewhere: {whose}{listed}. This "
        "is a bug in the task's code; nothing was trained. Report it with trainer.log."
    )
    raise TrainingFailed(
        FailureCode.CPU_FALLBACK,
        message,
        misplaced={name: str(where) for name, where in misplaced.items()},
    )
