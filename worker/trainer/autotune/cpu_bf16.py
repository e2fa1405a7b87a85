"""Decides whether `precision: auto` is bf16 on a CPU with bf16 instructions, by a short trial.

Such instructions are not always faster: it depends on the CPU, the width of the network, its inputs
and how many cores share the CPU. A bf16 step took 0.60 of the time of an fp32 step on an EPYC with
AVX-512's dot product, and 1.3 to 1.6 times as long on a Xeon whose AMX was hidden from its virtual
machine (resnet18, batch 32, torch 2.13, two cores each, November 2026).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redkiln.status import Phase
from redkiln.views.hardware import Precision
from worker.process.event_log import EventLog
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.autotune.probing import Probe, measure_speeds
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import MAX_SHARE
from worker.trainer.plan import count_samples

WORTH = 1.1
"""Least speed of bf16 relative to fp32 for which its rounding is worth it."""
LARGEST_TRIED = 32
"""Most samples per step in the trial: larger steps take longer with the same result."""
TURNS: tuple[Precision, ...] = ("bf16", "fp32", "fp32", "bf16", "bf16", "fp32")
"""Order of measurements. The best of each counts, because a machine with other users may be half as
fast a second later."""
SLOW_STEPS = 2 * len(TURNS)
"""Number of steps in a trial if they are slow; if they are fast it runs more, in little time."""


def tune_cpu_bf16(
    probe: Probe,
    *,
    num_train: int,
    key: Mapping[str, Any],
    remembered: Remembered,
    event_log: EventLog,
) -> None:
    """Choose the precision on a CPU that has bf16, if the spec leaves it open.

    An earlier measurement is used; otherwise there is a trial if it is a small part of training.

    Args:
        probe: The model as it would train in bf16; its training section is changed in place.
        num_train: Samples in the training split.
        key: Facts besides the device that the speed depends on, as JSON.
        remembered: Earlier measurements on this host and device.
        event_log: Receives messages about measurements and decisions.
    """
    training, asked = probe.training, probe.training.batch_size
    usual = reference_batch_size(num_train) if asked == "auto" else min(asked, num_train)
    tried = min(max(1, usual // training.accumulation), LARGEST_TRIED)
    whole_key = {**key, "batch_size": tried}
    gain = remembered.find("bf16_gain", whole_key)
    if gain is None:
        num_samples = count_samples(training, num_train=num_train, batch_size=usual)
        if SLOW_STEPS * tried > MAX_SHARE * num_samples:
            return
        event_log.enter(Phase.WARMING)
        rates = dict.fromkeys(TURNS, 0.0)
        for name in TURNS:
            rates[name] = max(rates[name], _measure_rate(probe, name, tried))
        gain = rates["bf16"] / rates["fp32"]
        remembered.save("bf16_gain", whole_key, gain)
        event_log.enter(Phase.PREPARING)
    training.precision = "bf16" if gain >= WORTH else "fp32"
    event_log.message(
        f"precision auto is {training.precision}: this CPU trains {gain:.2f} times as fast in bf16 "
        "as in fp32"
    )


def _measure_rate(probe: Probe, precision: Precision, batch_size: int) -> float:
    trial = probe.training.model_copy(update={"precision": precision, "accumulation": 1})
    probe = replace(probe, training=trial)
    return measure_speeds(probe, [batch_size], is_enough=lambda _: True).rates[batch_size]
