"""Estimates how long training will take before its first step, and how to shorten a long one."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from worker.process.event_log import EventLog
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import key_of, measure_step_seconds
from worker.trainer.setup import TrainingSetup

LONG_SECONDS = 60.0
"""Shorter trainings are not announced: they are over before anybody changes a setting."""
MUCH_SHORTER = 0.5
"""Largest share of the time that a suggested model may take."""


def announce_estimate(
    setup: TrainingSetup,
    *,
    steps_made: int,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
) -> float | None:
    """Report how long training takes, if it is long, and which model takes less.

    Returns:
        Seconds of the whole training, with the steps of earlier attempts and without evaluations;
        None if a step cannot be measured.

    Args:
        setup: The prepared job.
        steps_made: Steps that earlier attempts have done.
        device: Device that it runs on.
        remembered: Earlier measurements on this host and device.
        event_log: Receives the message.
    """
    steps = setup.plan.steps - steps_made
    seconds = _find_seconds(setup, device=device, remembered=remembered)
    if seconds is None:
        return None
    if steps * seconds >= LONG_SECONDS:
        _announce(setup, steps, seconds, device=device, event_log=event_log)
    return setup.plan.steps * seconds


def _announce(
    setup: TrainingSetup, steps: int, seconds: float, *, device: torch.device, event_log: EventLog
) -> None:
    others = {
        name: steps * step
        for name, build in setup.smaller_models.items()
        if (step := measure_step_seconds(replace(setup, model=build()), device=device)) is not None
    }
    place = "this CPU" if device.type == "cpu" else "this GPU"
    name = str(getattr(getattr(setup.spec, "model", None), "name", "the model"))
    is_fast = getattr(setup.spec, "quality", None) == "fast"
    event_log.message(
        describe_estimate(
            name,
            steps,
            seconds,
            place=place,
            others=others,
            is_fast=is_fast,
            folds=setup.spec.num_folds,
        )
    )


def describe_estimate(
    name: str,
    steps: int,
    step_seconds: float,
    *,
    place: str,
    others: Mapping[str, float],
    is_fast: bool = False,
    folds: int = 0,
) -> str:
    """Return the estimate as a sentence, with what would shorten the training.

    Args:
        name: Name of the job's model.
        steps: Training steps left.
        step_seconds: Time of one step.
        place: Device, for people.
        others: Seconds that other models take for the same steps, by name.
        is_fast: Whether the spec already has `quality: fast`.
        folds: Further models that cross-validation trains.
    """
    total = steps * step_seconds
    shorter = {k: v for k, v in others.items() if v <= MUCH_SHORTER * total}
    hints = [f"`model: {other}` (about {describe_time(v)})" for other, v in shorter.items()]
    hints += [] if is_fast else ["`quality: fast`"]
    first = f"{', '.join(hints)}, or " if hints else ""
    again = f" Each of the {folds} folds takes nearly as long again." if folds else ""
    return (
        f"training takes about {describe_time(total)} on {place}: {steps:,} steps of {name}, "
        f"{step_seconds:.3g} s each, without evaluations.{again} To shorten it, set {first}fewer "
        "epochs"
    )


def describe_time(seconds: float) -> str:
    """Return a time in the unit that suits it: `45 s`, `18 min`, `2.5 h`."""
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 99.5 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def _find_seconds(
    setup: TrainingSetup, *, device: torch.device, remembered: Remembered
) -> float | None:
    known: float | None = remembered.find("warm_step_seconds", key_of(setup))
    if known is None:
        known = measure_step_seconds(setup, device=device)
        if known is not None:
            remembered.save("warm_step_seconds", key_of(setup), known)
    return known
