"""Whether training goes through torch.compile: measured against plain steps, where it can pay.

Only the forward pass of training is compiled, around the model: its state keeps its names, and
evaluation and export, whose batches have other shapes, use the model as it is.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Literal

import torch

from redkiln.spec.job_spec import Training
from worker.process.event_log import EventLog
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import (
    MAX_SHARE,
    TOLERANCES,
    Forward,
    difference_of,
    drawing_apart,
    find_step_seconds,
    key_of,
    may_be_tried,
    time_step,
    undisturbed,
    warming,
)
from worker.trainer.setup import TrainingSetup

COMPILE_SECONDS = {"cpu": 120.0, "cuda": 60.0}
"""What compiling takes, at a guess: half a minute for a few layers, minutes for a deep network."""
MIN_GAIN = 0.05
"""Of a step's time, measured: less is not worth another set of kernels."""
PASSING = (torch.OutOfMemoryError, OSError)
"""Failures that say nothing about the next time: memory or a disk is short."""
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
    return may_be_tried(
        steps=steps,
        step_seconds=step_seconds,
        fixed_seconds=COMPILE_SECONDS[kind],
        num_steps=TRIAL_STEPS,
    )


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


def tune_compile(
    setup: TrainingSetup,
    *,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
    steps_made: int = 0,
    compiler: Callable[[Forward], Forward] | None = None,
) -> Forward | None:
    """Decide `training.compile` of a resolved spec, which becomes `off` or `default`.

    What was tried once is not tried again: a run that goes on is compiled as it was before, and
    `auto` leaves alone what failed to compile.

    Args:
        setup: prepared; its model is as before afterwards.
        device: that it runs on.
        remembered: of this host and device.
        event_log: told what is measured and what came of it.
        steps_made: before a run that goes on.
        compiler: makes a compiled function; torch's if None.

    Returns:
        What training calls instead of the model; None for the model itself.
    """
    training = setup.spec.training
    asked = training.compile
    training.compile = "off"
    if asked == "off":
        return None
    if training.gradient_checkpointing == "on":
        # A compiled forward pass decides for itself what it keeps.
        if asked == "default":
            event_log.message("the model is not compiled: gradient_checkpointing is on")
        return None
    steps = setup.plan.steps - steps_made
    if asked == "auto" and not _is_promising(
        setup, steps=steps, device=device, of=remembered, event_log=event_log
    ):
        return None
    obstacle = None if compiler else find_obstacle(device.type, os.environ)
    if asked == "auto" and obstacle is None:
        obstacle = remembered.find("compile_failure", key_of(setup))
    if obstacle is not None:
        event_log.message(f"the model is not compiled: {obstacle}")
        return None
    known = remembered.find("compile_trial", key_of(setup))
    trial = None if known is None else Trial(**known)
    if trial is not None and not _is_chosen(trial, asked=asked, training=training):
        event_log.message(describe_trial(trial, is_chosen=False))
        return None
    forward = (compiler or _compile)(setup.model)
    with warming(event_log):
        try:
            if trial is not None:
                event_log.message("compiling the model, which was measured to be faster before")
                _warm_up(setup, forward, device=device)
                return _choose(training, forward)
            event_log.message(
                "compiling the model: the first job of this kind takes a minute or more"
            )
            trial = _try(setup, forward, device=device)
        except Exception as error:  # noqa: BLE001 - a compiler fails in as many ways as it has parts
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
            event_log.warning(
                "not_compiled", f"compiling failed, so training goes on without: {reason}"
            )
            if not isinstance(error, PASSING):
                text = f"compiling it failed before on this worker ({reason})"
                remembered.save("compile_failure", key_of(setup), text)
            return None
    remembered.save("compile_trial", key_of(setup), asdict(trial))
    is_chosen = _is_chosen(trial, asked=asked, training=training)
    event_log.message(describe_trial(trial, is_chosen=is_chosen))
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


def _is_promising(
    setup: TrainingSetup, *, steps: int, device: torch.device, of: Remembered, event_log: EventLog
) -> bool:
    if steps * MAX_SHARE < TRIAL_STEPS:
        return False
    seconds = find_step_seconds(
        setup,
        device=device,
        remembered=of,
        event_log=event_log,
        why="whether compiling the model can pay",
    )
    # A batch that does not fit at once: training finds out what does.
    return seconds is not None and can_pay(device.type, steps=steps, step_seconds=seconds)


def _warm_up(setup: TrainingSetup, forward: Forward, *, device: torch.device) -> None:
    """Compile before the first step of training, whose time would be taken for training's."""
    with undisturbed(setup, device):
        time_step(setup, forward, device=device)


def _try(setup: TrainingSetup, forward: Forward, *, device: torch.device) -> Trial:
    """Both ways from the same state, then in turns."""
    with undisturbed(setup, device):
        # Dropout draws the same both times, on the device as well.
        with drawing_apart(device):
            _, plain = time_step(setup, setup.model, device=device)
        compile_seconds, compiled = time_step(setup, forward, device=device)
        times = [
            [time_step(setup, way, device=device)[0] for way in (setup.model, forward)]
            for _ in range(STEPS)
        ]
    plain_seconds, compiled_seconds = (min(seconds) for seconds in zip(*times, strict=True))
    return Trial(plain_seconds, compiled_seconds, difference_of(plain, compiled), compile_seconds)
