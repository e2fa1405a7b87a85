"""Whether `precision: auto` is bf16 on a CPU that multiplies it: tried for a moment.

That a CPU has the instructions does not say that they are faster: it depends on the CPU, on how
wide the network is, on what it is given and on how many cores share it. A step in bf16 took 0.60 of
its time in fp32 on an EPYC with AVX-512's dot product, and 1.3 to 1.6 times as long on a Xeon whose
AMX was hidden from its virtual machine (resnet18, batch 32, torch 2.13, two cores each, November
2026).
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
"""Times the rate in fp32 that bf16 must reach: below that rounding is not worth it."""
LARGEST_TRIED = 32
"""Samples of a step: larger ones take longer to say the same."""
TURNS: tuple[Precision, ...] = ("bf16", "fp32", "fp32", "bf16", "bf16", "fp32")
"""The best of each counts: a machine that others use too may be half as fast in the next second."""
SLOW_STEPS = 2 * len(TURNS)
"""That a trial makes where they take long; of short ones it makes more, which is a moment."""


def tune_cpu_bf16(
    probe: Probe,
    *,
    num_train: int,
    key: Mapping[str, Any],
    remembered: Remembered,
    event_log: EventLog,
) -> None:
    """Settle the precision on a CPU that has bf16, where a spec leaves it open.

    What was measured before is followed; else it is tried where that is a small part of training.

    Args:
        probe: the model as it would train in bf16; its training is changed in place.
        num_train: samples in the training split.
        key: what the speed depends on beside the device, as JSON.
        remembered: of this host and device.
        event_log: told what is measured and what came of it.
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
        f"precision auto is {training.precision}: in bf16 this CPU trains {gain:.2f} times as fast "
        "as in fp32"
    )


def _measure_rate(probe: Probe, precision: Precision, batch_size: int) -> float:
    trial = probe.training.model_copy(update={"precision": precision, "accumulation": 1})
    probe = replace(probe, training=trial)
    return measure_speeds(probe, [batch_size], is_enough=lambda _: True).rates[batch_size]
