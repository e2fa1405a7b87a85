"""Networks that a user wrote: built, tried before training, and given their own loss.

The class receives `num_classes`, `channels` and `image_size` if its constructor has them, and the
arguments of the spec. Its network maps (B, C, S, S) float32 to (B, classes) logits.

Shapes: B batch, C channels, S side in pixels.
"""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from redkiln.nearest import suggest
from redkiln.spec.image_models import Model
from redkiln.spec.own_code import GIVEN
from worker.jobdir import Order
from worker.trainer.models.own_source import (
    blaming,
    find_class,
    find_function,
    import_file,
    open_folder,
    refuse,
)
from worker.trainer.optim.losses import Loss

SAMPLES = 2
"""Images of the trial pass; batch norm needs more than one."""


@dataclass(frozen=True)
class OwnCode:
    """The user's code of a job.

    Attributes:
        folder: The unpacked folder.
        module: The imported file.
    """

    folder: Path
    module: ModuleType


class Preprocess:
    """Calls the user's `preprocess` on a network's images, as a hook in front of its forward."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._function = function

    def __call__(self, _network: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> the network's input."""
        return self._function(inputs[0])


def open_code(model: Model, order: Order) -> OwnCode:
    """Unpack and import the code that a spec names; the agent has downloaded it.

    Raises:
        TrainingFailed: It is gone, or its import fails.
    """
    assert model.file is not None
    folder = open_folder(order.bundle_path)
    return OwnCode(folder, import_file(folder, model.file))


def build_from_code(model: Model, code: OwnCode, *, num_classes: int) -> nn.Module:
    """Build the user's network on the CPU, with its preprocessing in front.

    Raises:
        TrainingFailed: The class is missing, or cannot be built.
    """
    assert model.class_ is not None
    assert model.file is not None
    found = find_class(code.module, model.class_, file=model.file)
    arguments = _fill_arguments(found, model, num_classes=num_classes)
    with blaming(code.folder, f"{model.class_} cannot be built", "/model/arguments"):
        network = found(**arguments)
    if model.preprocess is not None:
        function = find_function(code.module, model.preprocess, file=model.file, field="preprocess")
        network.register_forward_pre_hook(Preprocess(function))
    return network


def try_network(network: nn.Module, model: Model, code: OwnCode, *, num_classes: int) -> None:
    """Pass images through copies in both modes, so that errors show before training.

    Raises:
        TrainingFailed: The network has no weights, does not accept the images, or returns no logits
            of the classes.
    """
    options = model.options
    assert isinstance(options.image_size, int)
    assert isinstance(options.channels, int)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise refuse(f"{model.class_} has no weights to train", "/model/class")
    shape = (SAMPLES, options.channels, options.image_size, options.image_size)
    for mode in ("evaluation", "training"):
        trial = copy.deepcopy(network).train(mode == "training")
        what = f"{model.class_} fails in {mode} mode on images of shape {shape}"
        state = torch.get_rng_state()
        with blaming(code.folder, what, "/model/class"), torch.no_grad():
            output = trial(torch.rand(shape))
        torch.set_rng_state(state)
        _check_output(output, model, wanted=(SAMPLES, num_classes))


def build_own_loss(model: Model, code: OwnCode, *, num_classes: int) -> Loss:
    """Return the user's loss, tried on made-up logits.

    Raises:
        TrainingFailed: There is no such function, it fails, or it does not return one number that
            has a gradient.
    """
    assert model.loss is not None
    assert model.file is not None
    loss: Loss = find_function(code.module, model.loss, file=model.file, field="loss")
    logits = torch.zeros(SAMPLES, num_classes, requires_grad=True)
    with blaming(code.folder, f"{model.loss} fails", "/model/loss"):
        value = loss(logits, torch.zeros(SAMPLES, dtype=torch.int64))
    if not isinstance(value, torch.Tensor) or value.shape != () or not value.requires_grad:
        message = f"{model.loss} must return the mean loss: a tensor of one number with a gradient"
        raise refuse(message, "/model/loss")
    return loss


def _fill_arguments(found: type[nn.Module], model: Model, *, num_classes: int) -> dict[str, Any]:
    known = {
        "num_classes": num_classes,
        "channels": model.options.channels,
        "image_size": model.options.image_size,
    }
    parameters = inspect.signature(found).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    unknown = [name for name in model.arguments if name not in parameters and not takes_any]
    if unknown:
        hint = suggest(unknown[0], list(parameters))
        message = f"{model.class_} has no argument {unknown[0]!r}{hint}"
        raise refuse(message, f"/model/arguments/{unknown[0]}")
    return {name: known[name] for name in GIVEN if name in parameters} | model.arguments


def _check_output(output: object, model: Model, *, wanted: tuple[int, int]) -> None:
    if not isinstance(output, torch.Tensor):
        message = f"{model.class_} returns {type(output).__name__}, not a tensor of logits"
        raise refuse(message, "/model/class")
    if tuple(output.shape) != wanted:
        message = (
            f"{model.class_} returns shape {tuple(output.shape)} for {wanted[0]} images of "
            f"{wanted[1]} classes, not {wanted}; let its last layer have num_classes outputs"
        )
        raise refuse(message, "/model/class")
