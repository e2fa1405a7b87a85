"""Decides what `precision: auto` is, by a short trial of the types that the device may use.

Which type is fastest cannot be looked up. A bf16 step took 0.60 of the time of an fp32 step on an
EPYC with AVX-512's dot product, and 1.3 to 1.6 times as long on a Xeon whose AMX was hidden from
its virtual machine (resnet18, batch 32, torch 2.13, two cores each, November 2026). On an RX 7900
XTX 3x3 convolutions are reported at 45 TFLOP/s in bf16 and 122 in fp16 (ROCm/legacy-rocm-build
#5191, read 2026-11-23; this project has not measured it).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from redkiln.status import Phase
from redkiln.views.hardware import Precision
from worker.process.event_log import EventLog
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.autotune.probing import Probe, measure_speeds
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import MAX_SHARE
from worker.trainer.plan import count_samples

WORTH = 1.1
"""Least gain in speed for which rounding more, or with fp16 the smaller range, is worth it."""
LARGEST_TRIED = 32
"""Most samples per step in the trial: larger steps take longer with the same result."""


def tune_precision(
    probe: Probe,
    names: Sequence[Precision],
    *,
    num_train: int,
    key: Mapping[str, Any],
    remembered: Remembered,
    event_log: EventLog,
) -> None:
    """Choose the fastest of several types, in which the spec leaves the precision open.

    An earlier measurement is used; otherwise there is a trial if it is a small part of training.

    Args:
        probe: The model as it would train without a trial; its training section is changed in
            place.
        names: Types to compare (`precision.list_contenders`); fewer than two change nothing.
        num_train: Samples in the training split.
        key: Facts besides the device that the speed depends on, as JSON.
        remembered: Earlier measurements on this host and device.
        event_log: Receives messages about measurements and decisions.
    """
    if len(names) < 2:
        return
    training, asked = probe.training, probe.training.batch_size
    usual = reference_batch_size(num_train) if asked == "auto" else min(asked, num_train)
    tried = min(max(1, usual // training.accumulation), LARGEST_TRIED)
    whole_key = {**key, "batch_size": tried, "names": list(names)}
    rates = remembered.find("precision_rates", whole_key)
    is_remembered = rates is not None
    if rates is None:
        num_samples = count_samples(training, num_train=num_train, batch_size=usual)
        if num_slow_steps(names) * tried > MAX_SHARE * num_samples:
            return
        event_log.enter(Phase.WARMING)
        rates = _measure_rates(probe, names, batch_size=tried)
        remembered.save("precision_rates", whole_key, rates)
        event_log.enter(Phase.PREPARING)
    training.precision = choose_precision(rates)
    text = describe_choice(training.precision, rates, is_remembered=is_remembered)
    event_log.message(text)


def list_turns(names: Sequence[Precision]) -> list[Precision]:
    """Return the order of measurements: three of each type, none always before another.

    The best of each counts, because a machine with other users may be half as fast a second later.
    """
    return [*names, *reversed(names), *names]


def num_slow_steps(names: Sequence[Precision]) -> int:
    """Return the number of steps in a trial if they are slow; if they are fast it runs more."""
    return 2 * len(list_turns(names))


def choose_precision(rates: Mapping[Precision, float]) -> Precision:
    """Choose from samples per second: the safest type that none beats by more than `WORTH`.

    fp32 is safest, then bf16; fp16 has a small range and needs its loss scaled. A type with rate 0
    did not fit into memory.
    """
    chosen: Precision = "fp32"
    for name in ("bf16", "fp16"):
        if rates.get(name, 0.0) >= WORTH * rates.get(chosen, 0.0) and rates.get(name):
            chosen = name
    return chosen


def describe_choice(
    chosen: Precision, rates: Mapping[Precision, float], *, is_remembered: bool = False
) -> str:
    """Describe the choice and its reason, as a message to the user.

    Args:
        chosen: The type.
        rates: Samples per second of each.
        is_remembered: Whether an earlier job measured them.
    """
    listed = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    where = "a trial of an earlier job" if is_remembered else "a trial"
    return f"precision auto is {chosen} (samples/s in {where}: {listed})"


def _measure_rates(
    probe: Probe, names: Sequence[Precision], *, batch_size: int
) -> dict[Precision, float]:
    rates = dict.fromkeys(names, 0.0)
    for name in list_turns(names):
        rates[name] = max(rates[name], _measure_rate(probe, name, batch_size))
    return rates


def _measure_rate(probe: Probe, precision: Precision, batch_size: int) -> float:
    trial = probe.training.model_copy(update={"precision": precision, "accumulation": 1})
    probe = replace(probe, training=trial)
    try:
        return measure_speeds(probe, [batch_size], is_enough=lambda _: True).rates[batch_size]
    except torch.OutOfMemoryError:
        return 0.0
