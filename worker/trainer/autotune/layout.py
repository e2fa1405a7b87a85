"""Chooses the memory layout of images and convolutions, measured if that is worthwhile.

Which layout is faster depends on the model, the batch and the device's kernels; results differ only
by rounding. For short jobs the device's rule applies (`choose_memory_format`), so that
their first step waits for nothing.
"""

from collections.abc import Mapping

import torch

from redkiln.spec.image_training import LaidOutTraining, MemoryFormat
from redkiln.spec.job_spec import JobSpec
from worker.process.event_log import EventLog
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import (
    MAX_SHARE,
    TOLERANCES,
    Numbers,
    difference_of,
    find_step_seconds,
    key_of,
    may_be_tried,
    time_step,
    undisturbed,
    warming,
)
from worker.trainer.precision import DeviceFacts
from worker.trainer.setup import TrainingSetup

FORMATS: dict[MemoryFormat, torch.memory_format] = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}
OTHER: dict[MemoryFormat, MemoryFormat] = {
    "contiguous": "channels_last",
    "channels_last": "contiguous",
}
KERNEL_SECONDS = {"cpu": 1.0, "cuda": 20.0, "hip": 120.0}
"""Estimated time to find kernels for another layout; MIOpen times every kernel."""
MIN_GAIN = 0.05
"""Least gain in a step's time for which the rule is overridden."""
ROUNDS, STEPS = 2, 3
TRIAL_STEPS = 2 + ROUNDS * len(FORMATS) * (1 + STEPS)


def choose_memory_format(device: DeviceFacts, *, precision: str) -> MemoryFormat:
    """Choose the memory layout of images and convolutions when it was not measured (`layout`).

    On a CPU channels-last takes 0.73 of the time of the contiguous layout (amdnet, batch 64, 32x32,
    2 cores of an EPYC 7003, torch 2.13, medians of 60 interleaved steps, November 2026), and
    NVIDIA's half-precision kernels need it. MIOpen's do where a patch says so (`channels_last`).
    """
    is_wanted = device.suggests_channels_last or not device.is_hip
    if device.kind == "cpu" or (precision != "fp32" and is_wanted):
        return "channels_last"
    return "contiguous"


def tune_layout(
    setup: TrainingSetup,
    *,
    asked: MemoryFormat | None,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
    steps_made: int = 0,
) -> None:
    """Keep a prepared job's layout, or change to the other one if it is faster.

    Args:
        setup: The prepared job, in the layout of its resolved spec.
        asked: Layout that the spec sets, which is kept; None if the spec leaves it open.
        device: Device that it runs on.
        remembered: Earlier measurements on this host and device.
        event_log: Receives messages about measurements and decisions.
        steps_made: Steps done before a resumed run.
    """
    training = setup.spec.training
    if asked is not None or setup.lay_out is None or not isinstance(training, LaidOutTraining):
        return
    assert training.memory_format != "auto"
    rule = training.memory_format
    key = key_of(setup)
    times = remembered.find("layouts", key)
    if times is None:
        steps = setup.plan.steps - steps_made
        if not _is_promising(
            setup, steps, device=device, remembered=remembered, event_log=event_log
        ):
            return
        with warming(event_log):
            event_log.message("measuring both memory layouts of images")
            times = _measure(setup, rule, device=device)
        if times is None:
            torch.cuda.empty_cache()
            return
        remembered.save("layouts", key, times)
    chosen = choose_layout(times, rule=rule)
    training.memory_format = chosen
    setup.lay_out(FORMATS[chosen])
    event_log.message(describe_layouts(times, chosen=chosen))


def asked_layout(spec: JobSpec) -> MemoryFormat | None:
    """Return the layout that a spec sets; None if it leaves it open."""
    training = getattr(spec, "training", None)
    if not isinstance(training, LaidOutTraining) or training.memory_format == "auto":
        return None
    return training.memory_format


def choose_layout(times: Mapping[str, float], *, rule: MemoryFormat) -> MemoryFormat:
    """Return the rule's layout, unless steps in the other one are clearly shorter."""
    other = OTHER[rule]
    return other if times[other] <= (1 - MIN_GAIN) * times[rule] else rule


def describe_layouts(times: Mapping[str, float], *, chosen: MemoryFormat) -> str:
    """Describe the measurement and the decision, as a message to the user."""
    measured = ", ".join(f"{1000 * seconds:.1f} ms in {name}" for name, seconds in times.items())
    return f"the memory layout of images is {chosen}: a step takes {measured}"


def _is_promising(
    setup: TrainingSetup,
    steps: int,
    *,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
) -> bool:
    if steps * MAX_SHARE < TRIAL_STEPS:
        return False
    seconds = find_step_seconds(
        setup,
        device=device,
        remembered=remembered,
        event_log=event_log,
        why="whether the training is long enough to measure faster settings",
    )
    kind = "hip" if device.type == "cuda" and torch.version.hip else device.type
    return seconds is not None and may_be_tried(
        steps=steps,
        step_seconds=seconds,
        fixed_seconds=KERNEL_SECONDS[kind],
        num_steps=TRIAL_STEPS,
    )


def _measure(
    setup: TrainingSetup, rule: MemoryFormat, *, device: torch.device
) -> dict[str, float] | None:
    """Return the seconds of a step in each layout; None if they cannot be compared.

    Afterwards the job has the rule's layout again.
    """
    assert setup.lay_out is not None
    times: dict[str, list[float]] = {name: [] for name in FORMATS}
    numbers: dict[str, Numbers] = {}
    try:
        for _ in range(ROUNDS):
            for name, memory_format in FORMATS.items():
                setup.lay_out(memory_format)
                with undisturbed(setup, device):
                    # The first step finds its kernels.
                    _, numbers[name] = time_step(setup, setup.model, device=device)
                    times[name] += [
                        time_step(setup, setup.model, device=device)[0] for _ in range(STEPS)
                    ]
    except torch.OutOfMemoryError:
        return None
    finally:
        setup.lay_out(FORMATS[rule])
    difference = difference_of(numbers[rule], numbers[OTHER[rule]])
    if not difference <= TOLERANCES[setup.spec.training.precision]:
        return None
    return {name: min(seconds) for name, seconds in times.items()}
