"""Whether training goes through torch.compile: measured against plain steps, where it can pay.

Only the forward pass of training is compiled, around the model: its state keeps its names, and
evaluation and export, whose batches have other shapes, use the model as it is.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
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

COMPILE_SECONDS = 60.0
"""What compiling takes, at a guess: from 10 s for a few layers to minutes for a deep network."""
HOPED_GAIN = 0.2
"""Of a step's time, at a guess, before anything is measured."""
MIN_GAIN = 0.05
"""Of a step's time, measured: less is not worth another set of kernels."""
TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 3e-2}
"""Allowed difference of the losses and of the gradients' norms, relative."""
STEPS = 5


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


def can_pay(*, steps: int, step_seconds: float) -> bool:
    """Whether training is long enough that compiling could be worth its time."""
    return steps * step_seconds * HOPED_GAIN > COMPILE_SECONDS


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
    compiler: Callable[[Forward], Forward] | None = None,
) -> Forward | None:
    """Decide `training.compile` of a resolved spec, which becomes `off` or `default`.

    Args:
        work: prepared; its model is as before afterwards.
        device: that it runs on.
        remembered: of this host and device.
        report: told what is measured and what came of it.
        compiler: makes a compiled function; torch's if None.

    Returns:
        What training calls instead of the model; None for the model itself.
    """
    training = work.spec.training
    asked = training.compile
    training.compile = "off"
    if asked == "off":
        return None
    build = compiler or _compile
    if asked == "auto" and not _is_promising(work, device=device, of=remembered):
        return None
    obstacle = None if compiler else find_obstacle(device.type, os.environ)
    if obstacle is not None:
        report.message(f"the model is not compiled: {obstacle}")
        return None
    whole_key = _key_of(work)
    known = remembered.find("compile_trial", whole_key)
    if asked == "auto" and known is not None:
        is_chosen = is_worth_it(Trial(**known), precision=training.precision)
        return _choose(training, build(work.model)) if is_chosen else None
    report.enter(Phase.WARMING)
    report.message("compiling the model: the first job of this kind takes a minute or more")
    forward = build(work.model)
    try:
        trial = _try(work, forward, device=device)
    except Exception as error:  # noqa: BLE001 - a compiler fails in as many ways as it has parts
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
        report.warning("not_compiled", f"compiling failed, so training goes on without: {reason}")
        return None
    finally:
        report.enter(Phase.PREPARING)
    remembered.save("compile_trial", whole_key, asdict(trial))
    is_right = trial.difference <= TOLERANCES[training.precision]
    is_chosen = is_right if asked == "default" else is_worth_it(trial, precision=training.precision)
    report.message(describe_trial(trial, is_chosen=is_chosen))
    if not is_chosen:
        return None
    return _choose(training, forward)


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


def _is_promising(work: Work, *, device: torch.device, of: Remembered) -> bool:
    steps = work.plan.steps
    whole_key = _key_of(work)
    seconds = of.find("step_seconds", whole_key)
    if seconds is None:
        with _undisturbed(work, device):
            seconds = _time(work, work.model, device=device, steps=1)[0]
            if can_pay(steps=steps, step_seconds=seconds):
                # The first step of a process says nothing: another one does.
                seconds = _time(work, work.model, device=device, steps=1)[0]
        of.save("step_seconds", whole_key, seconds)
    return can_pay(steps=steps, step_seconds=seconds)


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
