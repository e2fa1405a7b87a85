"""Compares an engine's first steps with torch on the CPU, before anything is trained.

The kernels of both passes are compiled meanwhile, so this is the job's compiling phase.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from redkiln.failure import FailureCode, JobFailure
from worker.engines.network import EngineNetwork, keeping_state
from worker.process.failed import TrainingFailed
from worker.trainer.inputs import Batch, as_parts

NUM_STEPS = 2
"""Steps that are compared: the second starts from updated weights, and is recorded."""
CLOSE_LOSS = 1e-3
"""Largest relative difference of a loss."""
CLOSE_GRADIENT = 2e-2
"""Largest difference of a gradient, relative to its largest number. Rounding reaches 1e-3."""
NEGLIGIBLE = 1e-3
"""Gradients smaller than this part of the largest one may differ by that part. Biases in front of a
batch norm have such gradients: 0 but for rounding, which was 2.5e-5 of the largest one with torch
and up to 1.5e-4 between both (a network of two convolutions on MNIST; software Vulkan)."""
RATE = 0.01
"""Learning rate of these steps, whose updates are undone."""


@dataclass(frozen=True)
class Agreement:
    """The largest relative differences between the engine and torch.

    Attributes:
        name: The weight whose gradient differs most.
        seconds: Time of the engine's passes, which is nearly all compilation.
    """

    loss: float
    gradient: float
    name: str
    seconds: float


def compare_first_steps(
    network: EngineNetwork,
    get_batch: Callable[[int], Batch],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Agreement:
    """Make a few steps with both, from the same weights; all of them are undone.

    Args:
        network: The engine's network.
        get_batch: Returns a training batch by its place.
        loss: The job's loss.

    Raises:
        TrainingFailed: The engine computes something else than torch.
    """
    own = network.network
    with keeping_state(own):
        kept = [parameter.detach().clone() for parameter in own.parameters()]
        try:
            found = [_compare(network, get_batch(place), loss) for place in range(NUM_STEPS)]
        finally:
            with torch.no_grad():
                for parameter, value in zip(own.parameters(), kept, strict=True):
                    parameter.copy_(value)
    worst = max(found, key=lambda one: one.gradient)
    largest_loss = max(one.loss for one in found)
    seconds = sum(one.seconds for one in found)
    agreement = Agreement(largest_loss, worst.gradient, worst.name, seconds)
    _refuse(network, agreement)
    return agreement


def _compare(
    network: EngineNetwork,
    batch: Batch,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Agreement:
    own = network.network
    began = time.perf_counter()
    ours, our_gradients = _step(network, own, batch, loss)
    seconds = time.perf_counter() - began
    theirs, their_gradients = _step(own, own, batch, loss)
    gaps = _measure_gaps(our_gradients, their_gradients)
    name = max(gaps, key=lambda one: gaps[one], default="")
    with torch.no_grad():
        for key, parameter in own.named_parameters():
            if key in their_gradients:
                parameter.sub_(their_gradients[key], alpha=RATE)
    relative = abs(ours - theirs) / max(abs(theirs), 1e-6)
    return Agreement(relative, gaps.get(name, 0.0), name, seconds)


def _step(
    forward: nn.Module,
    own: nn.Module,
    batch: Batch,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> tuple[float, dict[str, torch.Tensor]]:
    inputs, targets = batch
    own.train()
    own.zero_grad(set_to_none=True)
    with keeping_state(own):
        torch.manual_seed(0)
        value = loss(forward(*as_parts(inputs)), targets)
        value.backward()  # type: ignore[no-untyped-call]
        found = {
            name: parameter.grad.clone()
            for name, parameter in own.named_parameters()
            if parameter.grad is not None
        }
    return float(value.detach()), found


def _measure_gaps(
    ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Return how far gradients differ, relative to their largest number."""
    sizes = {name: float(one.abs().max()) for name, one in theirs.items()}
    negligible = NEGLIGIBLE * max(sizes.values(), default=0.0)
    gaps = {}
    for name, gradient in theirs.items():
        is_tiny = sizes[name] <= negligible
        scale = max(negligible / CLOSE_GRADIENT if is_tiny else sizes[name], 1e-12)
        gap = float((ours[name] - gradient).abs().max()) / scale
        gaps[name] = gap if math.isfinite(gap) else math.inf
    return gaps


def _refuse(network: EngineNetwork, found: Agreement) -> None:
    is_close = found.loss <= CLOSE_LOSS and found.gradient <= CLOSE_GRADIENT
    if is_close:
        return
    message = (
        f"the engine {network.engine.name} on {network.engine.device_name} disagrees with torch: "
        f"the loss differs by {found.loss:.1e} (limit {CLOSE_LOSS:.0e}), the gradient of "
        f"{found.name} by {found.gradient:.1e} of its largest value (limit {CLOSE_GRADIENT:.0e}). "
        "Set resources.engine to torch."
    )
    failure = JobFailure.of(FailureCode.GPU_FAULT, message, pointer="/resources/engine")
    # Another attempt would compute the same.
    raise TrainingFailed.from_failure(failure.model_copy(update={"retryable": False}))
