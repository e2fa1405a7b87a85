"""How images and convolutions lie in memory: measured where that is a small part of a training.

Which layout is faster depends on the model, the batch and the device's kernels; numbers differ by
rounding alone. Elsewhere the rule of the device stands (`resolve.choose_memory_format`), so that a
short job's first step waits for nothing.
"""

from collections.abc import Mapping

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.image_classification import ImageTraining, MemoryFormat
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
"""What finding kernels for another layout takes, at a guess; MIOpen times every one that there is.
"""
MIN_GAIN = 0.05
"""Of a step's time: less is not worth leaving the rule."""
ROUNDS, STEPS = 2, 3
TRIAL_STEPS = 2 + ROUNDS * len(FORMATS) * (1 + STEPS)


def tune_layout(
    setup: TrainingSetup,
    *,
    asked: MemoryFormat | None,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
    steps_made: int = 0,
) -> None:
    """Keep the layout that a prepared job has, or change to the other one where that was faster.

    Args:
        setup: prepared, in the layout that its resolved spec has.
        asked: by the spec, which is followed; None where it left the layout open.
        device: that it runs on.
        remembered: of this host and device.
        event_log: told what is measured and what came of it.
        steps_made: before a run that goes on.
    """
    training = setup.spec.training
    if asked is not None or setup.lay_out is None or not isinstance(training, ImageTraining):
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
            event_log.message("measuring both layouts of images in memory")
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
    """What a spec says of the layout; None where it leaves it open."""
    training = getattr(spec, "training", None)
    if not isinstance(training, ImageTraining) or training.memory_format == "auto":
        return None
    return training.memory_format


def choose_layout(times: Mapping[str, float], *, rule: MemoryFormat) -> MemoryFormat:
    """The layout of the rule, unless the other one's steps are clearly shorter."""
    other = OTHER[rule]
    return other if times[other] <= (1 - MIN_GAIN) * times[rule] else rule


def describe_layouts(times: Mapping[str, float], *, chosen: MemoryFormat) -> str:
    """What was measured and what follows, for people."""
    told = ", ".join(f"{1000 * seconds:.1f} ms in {name}" for name, seconds in times.items())
    return f"images lie in memory as {chosen}: a step takes {told}"


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
        why="what may be measured further",
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
    """Seconds of a step in each layout; None where they cannot be compared.

    The job has the layout of the rule afterwards.
    """
    assert setup.lay_out is not None
    times: dict[str, list[float]] = {name: [] for name in FORMATS}
    numbers: dict[str, Numbers] = {}
    try:
        for _ in range(ROUNDS):
            for name, memory_format in FORMATS.items():
                setup.lay_out(memory_format)
                with undisturbed(setup, device):
                    # The first one finds its kernels.
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
