"""Whether training goes through torch.compile: measured against plain steps, where it can pay.

Only the forward pass of training is compiled, around the model: its state keeps its names, and
evaluation and export, whose batches have other shapes, use the model as it is.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch

from redkiln.job import Phase
from redkiln.spec import Training
from worker.trainer.devices import autocast_of, synchronize
from worker.trainer.inputs import as_parts
from worker.trainer.remembered import Remembered
from worker.trainer.report import Report
from worker.trainer.work import Work

Forward = Callable[..., Any]

COMPILE_SECONDS = {"cpu": 120.0, "cuda": 60.0}
"""What compiling takes, at a guess: half a minute for a few layers, minutes for a deep network."""
MAX_SHARE = 0.05
"""Of a training's time that a trial may take: it is lost where plain steps win."""
MIN_GAIN = 0.05
"""Of a step's time, measured: less is not worth another set of kernels."""
TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 3e-2}
"""Allowed difference of the losses and of the gradients' norms, relative."""
STEPS = 5
TRIAL_STEPS = 2 + 2 * (1 + STEPS)
"""Plain and compiled ones that are made before it is known whether compiling pays."""


@dataclass(frozen=True)
class Trial:
    """A plain and a compiled step, side by side.

    Attributes:
        plain_seconds: of the fastest plain step, without the update.
        compiled_seconds: of the fastest compiled one.
        difference: of losses and gradients' norms, relative; the larger one.
        compile_seconds: that the first compiled step took.
    """

    plain_seconds: float
    compiled_seconds: float
    difference: float
    compile_seconds: float


def can_pay(kind: str, *, steps: int, step_seconds: float) -> bool:
    """Whether training is so long that a trial is a small part of it, however it ends."""
    trial_seconds = COMPILE_SECONDS[kind] + TRIAL_STEPS * step_seconds
    return trial_seconds <= MAX_SHARE * steps * step_seconds


def is_worth_it(trial: Trial, *, precision: str) -> bool:
    """Whether compiled steps are faster and make the same numbers."""
    is_faster = trial.compiled_seconds <= (1 - MIN_GAIN) * trial.plain_seconds
    return is_faster and trial.difference <= TOLERANCES[precision]


def find_obstacle(kind: str, environ: Mapping[str, str]) -> str | None:
    """Why nothing can be compiled here; None where it can."""
    compilers = [environ["CXX"]] if environ.get("CXX") else ["g++", "clang++", "c++"]
    if kind == "cpu":
        if not any(map(shutil.which, compilers)):
            return "this worker has no C++ compiler (g++)"
        return None
    if find_spec("triton") is None:
        return "this worker's torch has no Triton"
    if not any(map(shutil.which, [environ.get("CC") or "gcc", "clang", "cc"])):
        return "this worker has no C compiler (gcc), which Triton needs"
    return None


def settle_compile(
    work: Work,
    *,
    device: torch.device,
    remembered: Remembered,
    report: Report,
    steps_made: int = 0,
    compiler: Callable[[Forward], Forward] | None = None,
) -> Forward | None:
    """Decide `training.compile` of a resolved spec, which becomes `off` or `default`.

    What was tried once is not tried again: a run that goes on is compiled as it was before.

    Args:
        work: prepared; its model is as before afterwards.
        device: that it runs on.
        remembered: of this host and device.
        report: told what is measured and what came of it.
        steps_made: before a run that goes on.
        compiler: makes a compiled function; torch's if None.

    Returns:
        What training calls instead of the model; None for the model itself.
    """
    training = work.spec.training
    asked = training.compile
    training.compile = "off"
    if asked == "off":
        return None
    if training.gradient_checkpointing == "on":
        # A compiled forward pass decides for itself what it keeps.
        if asked == "default":
            report.message("the model is not compiled: gradient_checkpointing is on")
        return None
    steps = work.plan.steps - steps_made
    if asked == "auto" and not _is_promising(work, steps=steps, device=device, of=remembered):
        return None
    obstacle = None if compiler else find_obstacle(device.type, os.environ)
    if obstacle is not None:
        report.message(f"the model is not compiled: {obstacle}")
        return None
    known = remembered.find("compile_trial", _key_of(work))
    trial = None if known is None else Trial(**known)
    if trial is not None and not _is_chosen(trial, asked=asked, training=training):
        report.message(describe_trial(trial, is_chosen=False))
        return None
    forward = (compiler or _compile)(work.model)
    with _warming(report):
        try:
            if trial is not None:
                report.message("compiling the model, which was measured to be faster before")
                _warm_up(work, forward, device=device)
                return _choose(training, forward)
            report.message("compiling the model: the first job of this kind takes a minute or more")
            trial = _try(work, forward, device=device)
        except Exception as error:  # noqa: BLE001 - a compiler fails in as many ways as it has parts
            reason = str(error).splitlines()[0][:300] if str(error) else ""
            report.warning(
                "not_compiled",
                f"compiling failed, so training goes on without: {type(error).__name__}: {reason}",
            )
            return None
    remembered.save("compile_trial", _key_of(work), asdict(trial))
    is_chosen = _is_chosen(trial, asked=asked, training=training)
    report.message(describe_trial(trial, is_chosen=is_chosen))
    return _choose(training, forward) if is_chosen else None


def describe_trial(trial: Trial, *, is_chosen: bool) -> str:
    """What was measured and what follows, for people."""
    verdict = "the model is compiled" if is_chosen else "the model is not compiled"
    return (
        f"{verdict}: a compiled step takes {1000 * trial.compiled_seconds:.1f} ms, a plain one "
        f"{1000 * trial.plain_seconds:.1f} ms; their numbers differ by {trial.difference:.1e}; "
        f"compiling took {trial.compile_seconds:.0f} s"
    )


def _choose(training: Training, forward: Forward) -> Forward:
    chosen: Literal["default"] = "default"
    training.compile = chosen
    if "torch._dynamo" in sys.modules:
        # A shape that comes up later and cannot be compiled is trained as it is.
        torch._dynamo.config.suppress_errors = True
    return forward


def _compile(forward: Forward) -> Forward:
    import torch._inductor.config

    # Processes of its own would outlive a stopped trainer, and share its few cores.
    torch._inductor.config.compile_threads = 1
    # torch's own random numbers, so that dropout draws as it does without.
    return torch.compile(forward, options={"fallback_random": True})


def _is_chosen(trial: Trial, *, asked: str, training: Training) -> bool:
    if asked == "default":
        return trial.difference <= TOLERANCES[training.precision]
    return is_worth_it(trial, precision=training.precision)


@contextlib.contextmanager
def _warming(report: Report) -> Iterator[None]:
    report.enter(Phase.WARMING)
    try:
        yield
    finally:
        report.enter(Phase.PREPARING)


def _is_promising(work: Work, *, steps: int, device: torch.device, of: Remembered) -> bool:
    if steps * MAX_SHARE < TRIAL_STEPS:
        return False
    seconds = of.find("warm_step_seconds", _key_of(work))
    if seconds is None:
        seconds = _measure_step(work, device)
        if seconds is None:
            # The batch does not fit at once: training finds out what does.
            if device.type == "cuda":
                torch.cuda.empty_cache()
            return False
        of.save("warm_step_seconds", _key_of(work), seconds)
    return can_pay(device.type, steps=steps, step_seconds=seconds)


def _measure_step(work: Work, device: torch.device) -> float | None:
    """Seconds of a plain step; None where memory is not enough for it."""
    try:
        with _undisturbed(work, device):
            # The first step of a process says nothing: it also sets up what all others use.
            _time(work, work.model, device=device, steps=1)
            return _time(work, work.model, device=device, steps=1)[0]
    except torch.OutOfMemoryError:
        return None


def _warm_up(work: Work, forward: Forward, *, device: torch.device) -> None:
    """Compile before the first step of training, whose time would be taken for training's."""
    with _undisturbed(work, device):
        _time(work, forward, device=device, steps=1)


def _key_of(work: Work) -> dict[str, Any]:
    spec, training = work.spec, work.spec.training
    return {
        "task": spec.task,
        "model": spec.model_dump(mode="json").get("model"),
        "num_parameters": sum(p.numel() for p in work.model.parameters()),
        "batch_size": training.batch_size,
        "accumulation": training.accumulation,
        "precision": training.precision,
    }


def _try(work: Work, forward: Forward, *, device: torch.device) -> Trial:
    """Both ways from the same state, then in turns."""
    with _undisturbed(work, device):
        state = torch.get_rng_state()
        _, plain = _time(work, work.model, device=device, steps=1)
        torch.set_rng_state(state)
        compile_seconds, compiled = _time(work, forward, device=device, steps=1)
        times = [
            [_time(work, way, device=device, steps=1)[0] for way in (work.model, forward)]
            for _ in range(STEPS)
        ]
    difference = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(plain, compiled, strict=True))
    return Trial(min(t[0] for t in times), min(t[1] for t in times), difference, compile_seconds)


def _time(
    work: Work, forward: Forward, *, device: torch.device, steps: int
) -> tuple[float, tuple[float, float]]:
    """Seconds of a step without its update; its loss and its gradients' norm."""
    inputs, targets = work.batches.get(0, 0)
    parts = work.spec.training.accumulation
    inputs = tuple(part.tensor_split(parts)[0] for part in as_parts(inputs))
    targets = targets.tensor_split(parts)[0]
    synchronize(device)
    start = time.perf_counter()
    for _ in range(steps):
        work.model.zero_grad(set_to_none=True)
        with autocast_of(device, work.spec.training.precision):
            outputs = forward(*inputs)
        loss = work.loss(outputs.float(), targets)
        loss.backward()  # type: ignore[no-untyped-call]
    synchronize(device)
    seconds = (time.perf_counter() - start) / steps * parts
    gradients = [p.grad for p in work.model.parameters() if p.grad is not None]
    return seconds, (loss.item(), torch.nn.utils.get_total_norm(gradients).item())


class _undisturbed:  # noqa: N801 - reads as the context manager that it is
    """Within it steps are made that leave no trace: buffers, gradients and generators come back."""

    def __init__(self, work: Work, device: torch.device) -> None:
        self._model = work.model
        devices = [device] if device.type == "cuda" else []
        self._generators = torch.random.fork_rng(devices=devices)

    def __enter__(self) -> None:
        self._was_training = self._model.training
        self._buffers = {name: b.clone() for name, b in self._model.named_buffers()}
        self._generators.__enter__()
        self._model.train()

    def __exit__(self, *error: object) -> None:
        self._generators.__exit__(None, None, None)
        self._model.train(self._was_training)
        self._model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, buffer in self._model.named_buffers():
                buffer.copy_(self._buffers[name])
