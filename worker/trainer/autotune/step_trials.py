"""Steps that are made before training, to see how long they take: they leave no trace in it."""

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
"""Of a training's time that a trial may take: it is lost where nothing better is found."""
TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 3e-2}
"""Allowed difference of the losses and of the gradients' norms, relative."""

Numbers = tuple[float, float]
"""Of a step: its loss, and its gradients' norm."""


def may_be_tried(*, steps: int, step_seconds: float, fixed_seconds: float, num_steps: int) -> bool:
    """Whether training is so long that a trial is a small part of it, however it ends.

    Args:
        steps: of training, that are left.
        step_seconds: of one of them.
        fixed_seconds: that the trial takes beside its steps.
        num_steps: that it makes.
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
    """Seconds of a plain step, measured once; None where memory is not enough for it.

    Args:
        setup: prepared.
        device: that it runs on.
        remembered: of this host and device.
        event_log: told what is measured.
        why: it is measured, for people.
    """
    known: float | None = remembered.find("warm_step_seconds", key_of(setup))
    if known is not None:
        return known
    with warming(event_log):
        event_log.message(f"measuring a step, which tells {why}")
        try:
            with undisturbed(setup, device):
                # The first step of a process says nothing: it also sets up what all others use.
                time_step(setup, setup.model, device=device)
                seconds, _ = time_step(setup, setup.model, device=device)
        except torch.OutOfMemoryError:
            seconds = None
    if seconds is None:
        # Behind the handler of the error, which keeps every tensor of the step alive.
        torch.cuda.empty_cache()
        return None
    remembered.save("warm_step_seconds", key_of(setup), seconds)
    return seconds


def time_step(
    setup: TrainingSetup, forward: Forward, *, device: torch.device
) -> tuple[float, Numbers]:
    """Seconds of a step without its update, and its numbers."""
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
    """The larger one of the two relative differences."""
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, other, strict=True))


def key_of(setup: TrainingSetup) -> dict[str, Any]:
    """What the time of a step follows from, beside the device, as the spec now is."""
    spec, training = setup.spec, setup.spec.training
    return {
        "task": spec.task,
        "model": spec.model_dump(mode="json").get("model"),
        "num_parameters": sum(p.numel() for p in setup.model.parameters()),
        "batch_size": training.batch_size,
        **settings_of(training),
    }


def settings_of(training: Training) -> dict[str, Any]:
    """Those that the time of a step of any batch follows from, whatever the model."""
    return {
        "accumulation": training.accumulation,
        "precision": training.precision,
        # `auto` begins without, too.
        "gradient_checkpointing": training.gradient_checkpointing == "on",
        "memory_format": getattr(training, "memory_format", None),
    }


@contextlib.contextmanager
def warming(event_log: EventLog) -> Iterator[None]:
    """Within it the run is in the phase of what is done once before its first step."""
    event_log.enter(Phase.WARMING)
    try:
        yield
    finally:
        event_log.enter(Phase.PREPARING)


def drawing_apart(device: torch.device) -> AbstractContextManager[None]:
    """Within it other numbers may be drawn: behind it the next ones are those it began with."""
    devices = [device] if device.type == "cuda" else []
    return torch.random.fork_rng(devices=devices)


@contextlib.contextmanager
def undisturbed(setup: TrainingSetup, device: torch.device) -> Iterator[None]:
    """Within it steps are made that leave no trace: buffers, gradients, generators come back."""
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
