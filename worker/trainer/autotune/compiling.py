"""Decides whether training uses torch.compile, by measuring it against plain steps if it can pay.

Only the forward pass of training is compiled, around the model. Its state keeps its names, and
evaluation and export, whose batches have other shapes, use the plain model.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import torch

from redkiln.spec.job_spec import Training
from worker.hardware.facts.compilers import find_compiler_obstacle
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
"""Estimated time to compile: half a minute for a few layers, minutes for a deep network."""
MIN_GAIN = 0.05
"""Least gain in a step's time for which compiling is worth another set of kernels."""
PASSING = (torch.OutOfMemoryError, OSError)
"""Failures that may not recur: memory or disk space was short."""
STEPS = 5
TRIAL_STEPS = 2 + 2 * (1 + STEPS)
"""Plain and compiled steps run before it is known whether compiling pays."""


@dataclass(frozen=True)
class Trial:
    """A comparison of plain and compiled steps.

    Attributes:
        plain_seconds: Time of the fastest plain step, without the update.
        compiled_seconds: Time of the fastest compiled step.
        difference: Relative difference of losses or of gradient norms, whichever is larger.
        compile_seconds: Time of the first compiled step.
    """

    plain_seconds: float
    compiled_seconds: float
    difference: float
    compile_seconds: float


def can_pay(kind: str, *, steps: int, step_seconds: float) -> bool:
    """Return whether training is so long that a trial is a small part of it in any case."""
    return may_be_tried(
        steps=steps,
        step_seconds=step_seconds,
        fixed_seconds=COMPILE_SECONDS[kind],
        num_steps=TRIAL_STEPS,
    )


def is_worth_it(trial: Trial, *, precision: str) -> bool:
    """Return whether compiled steps are faster and compute the same numbers."""
    is_faster = trial.compiled_seconds <= (1 - MIN_GAIN) * trial.plain_seconds
    return is_faster and trial.difference <= TOLERANCES[precision]


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

    A trial is not repeated: a resumed run is compiled as before, and `auto` does not retry a model
    that failed to compile.

    Args:
        setup: The prepared job; its model is unchanged afterwards.
        device: Device that it runs on.
        remembered: Earlier measurements on this host and device.
        event_log: Receives messages about measurements and decisions.
        steps_made: Steps done before a resumed run.
        compiler: Compiles a function. None: torch's compiler.

    Returns:
        The function that training calls instead of the model; None for the model itself.
    """
    training = setup.spec.training
    asked = training.compile
    training.compile = "off"
    if asked == "off":
        return None
    if training.gradient_checkpointing == "on":
        # A compiled forward pass chooses itself which activations to keep.
        if asked == "default":
            event_log.message("the model is not compiled because gradient_checkpointing is on")
        return None
    steps = setup.plan.steps - steps_made
    if asked == "auto" and not _is_promising(
        setup, steps=steps, device=device, of=remembered, event_log=event_log
    ):
        return None
    obstacle = None if compiler else find_compiler_obstacle(device.type, os.environ)
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
                event_log.message("compiling the model, which was faster in an earlier measurement")
                _warm_up(setup, forward, device=device)
                return _choose(training, forward)
            event_log.message("compiling the model; a first job of its kind takes a minute or more")
            trial = compare_steps(setup, setup.model, forward, device=device)
        except Exception as error:  # noqa: BLE001 - each part of a compiler has its own errors
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
            event_log.warning(
                "not_compiled", f"compiling failed, so training continues without it: {reason}"
            )
            if not isinstance(error, PASSING):
                text = f"compiling it failed earlier on this worker ({reason})"
                remembered.save("compile_failure", key_of(setup), text)
            return None
    remembered.save("compile_trial", key_of(setup), asdict(trial))
    is_chosen = _is_chosen(trial, asked=asked, training=training)
    event_log.message(describe_trial(trial, is_chosen=is_chosen))
    return _choose(training, forward) if is_chosen else None


def describe_trial(trial: Trial, *, is_chosen: bool) -> str:
    """Describe the measurement and the decision, as a message to the user."""
    verdict = "the model is compiled" if is_chosen else "the model is not compiled"
    return (
        f"{verdict}: a compiled step takes {1000 * trial.compiled_seconds:.1f} ms, a plain one "
        f"{1000 * trial.plain_seconds:.1f} ms; their results differ by {trial.difference:.1e}; "
        f"compiling took {trial.compile_seconds:.0f} s"
    )


def _choose(training: Training, forward: Forward) -> Forward:
    chosen: Literal["default"] = "default"
    training.compile = chosen
    if "torch._dynamo" in sys.modules:
        # Train a later shape that cannot be compiled without compiling it.
        torch._dynamo.config.suppress_errors = True
    return forward


def _compile(forward: Forward) -> Forward:
    import torch._inductor.config

    # Worker processes would outlive a stopped trainer, and share its few cores.
    torch._inductor.config.compile_threads = 1
    # Use torch's own random numbers, so that dropout draws the same values as without compiling.
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
        why="whether compiling the model would save time",
    )
    # None: the batch does not fit at once; training will find what does.
    return seconds is not None and can_pay(device.type, steps=steps, step_seconds=seconds)


def _warm_up(setup: TrainingSetup, forward: Forward, *, device: torch.device) -> None:
    """Compile before the first step of training, whose time would otherwise include compiling."""
    with undisturbed(setup, device):
        time_step(setup, forward, device=device)


def compare_steps(
    setup: TrainingSetup, plain_forward: Forward, forward: Forward, *, device: torch.device
) -> Trial:
    """Run steps both ways from the same state, then alternately."""
    with undisturbed(setup, device):
        # Dropout draws the same values both times, on the device too.
        with drawing_apart(device):
            _, plain = time_step(setup, plain_forward, device=device)
        compile_seconds, compiled = time_step(setup, forward, device=device)
        times = [
            [time_step(setup, way, device=device)[0] for way in (plain_forward, forward)]
            for _ in range(STEPS)
        ]
    plain_seconds, compiled_seconds = (min(seconds) for seconds in zip(*times, strict=True))
    return Trial(plain_seconds, compiled_seconds, difference_of(plain, compiled), compile_seconds)
