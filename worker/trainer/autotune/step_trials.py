"""Steps that are run before training to measure their time, without any effect on it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from redkiln.spec.job_spec import Training
from redkiln.status import Phase
from worker.process.event_log import EventLog
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.devices import autocast_of, synchronize
from worker.trainer.inputs import as_parts
from worker.trainer.setup import TrainingSetup

Forward = Callable[..., Any]

MAX_SHARE = 0.05
"""Largest share of the training time for a trial, which is lost if nothing better is found."""
TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 3e-2}
"""Allowed relative difference of losses and of gradient norms."""

Numbers = tuple[float, float]
"""A step's loss and the norm of its gradients."""


def may_be_tried(*, steps: int, step_seconds: float, fixed_seconds: float, num_steps: int) -> bool:
    """Return whether training is so long that a trial is a small part of it, whatever its result.

    Args:
        steps: Training steps left.
        step_seconds: Time of one step.
        fixed_seconds: Time of the trial in addition to its steps.
        num_steps: Number of steps in the trial.
    """
    return fixed_seconds + num_steps * step_seconds <= MAX_SHARE * steps * step_seconds


def find_step_seconds(
    setup: TrainingSetup,
    *,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
    why: str,
) -> float | None:
    """Return the seconds of a plain step, measured once; None if memory is insufficient.

    Args:
        setup: The prepared job.
        device: Device that it runs on.
        remembered: Earlier measurements on this host and device.
        event_log: Receives a message about the measurement.
        why: Decision that the measurement is for, used in that message.
    """
    known: float | None = remembered.find("warm_step_seconds", key_of(setup))
    if known is not None:
        return known
    with warming(event_log):
        event_log.message(f"timing a training step to find out {why}")
        seconds = measure_step_seconds(setup, device=device)
    if seconds is None:
        # Outside the handler of the error, which keeps every tensor of the step alive.
        torch.cuda.empty_cache()
        return None
    remembered.save("warm_step_seconds", key_of(setup), seconds)
    return seconds


def measure_step_seconds(setup: TrainingSetup, *, device: torch.device) -> float | None:
    """Return the seconds of a plain step; None if memory is insufficient."""
    try:
        with undisturbed(setup, device):
            # The first step of a process is not typical: it sets up what all others use.
            time_step(setup, setup.model, device=device)
            seconds, _ = time_step(setup, setup.model, device=device)
    except torch.OutOfMemoryError:
        return None
    return seconds


def time_step(
    setup: TrainingSetup, forward: Forward, *, device: torch.device
) -> tuple[float, Numbers]:
    """Return the seconds of a step without its update, and its loss and gradient norm."""
    inputs, targets = setup.batches.get(0, 0)
    parts = setup.spec.training.accumulation
    inputs = tuple(part.tensor_split(parts)[0] for part in as_parts(inputs))
    targets = targets.tensor_split(parts)[0]
    synchronize(device)
    start = time.perf_counter()
    setup.model.zero_grad(set_to_none=True)
    with autocast_of(device, setup.spec.training.precision):
        outputs = forward(*inputs)
    loss = setup.loss(outputs.float(), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    synchronize(device)
    seconds = (time.perf_counter() - start) * parts
    gradients = [p.grad for p in setup.model.parameters() if p.grad is not None]
    return seconds, (loss.item(), torch.nn.utils.get_total_norm(gradients).item())


def difference_of(one: Numbers, other: Numbers) -> float:
    """Return the larger of the two relative differences."""
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, other, strict=True))


def key_of(setup: TrainingSetup) -> dict[str, Any]:
    """Return everything besides the device that a step's time depends on, from the current spec."""
    spec, training = setup.spec, setup.spec.training
    return {
        "task": spec.task,
        "model": spec.model_dump(mode="json").get("model"),
        "num_parameters": sum(p.numel() for p in setup.model.parameters()),
        "batch_size": training.batch_size,
        **settings_of(training),
    }


def settings_of(training: Training) -> dict[str, Any]:
    """Return the settings that a step's time depends on, whatever the model and batch size."""
    return {
        "accumulation": training.accumulation,
        "precision": training.precision,
        # `auto` starts without it, too.
        "gradient_checkpointing": training.gradient_checkpointing == "on",
        "memory_format": getattr(training, "memory_format", None),
    }


@contextlib.contextmanager
def warming(event_log: EventLog) -> Iterator[None]:
    """Put the run into the phase of one-time work before its first step, inside the block."""
    event_log.enter(Phase.WARMING)
    try:
        yield
    finally:
        event_log.enter(Phase.PREPARING)


def drawing_apart(device: torch.device) -> AbstractContextManager[None]:
    """Keep random numbers drawn inside the block from changing those drawn after it."""
    devices = [device] if device.type == "cuda" else []
    return torch.random.fork_rng(devices=devices)


@contextlib.contextmanager
def undisturbed(setup: TrainingSetup, device: torch.device) -> Iterator[None]:
    """Restore buffers, gradients and generators after steps inside the block."""
    model = setup.model
    was_training = model.training
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        with drawing_apart(device):
            model.train()
            yield
    finally:
        model.train(was_training)
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers[name])
