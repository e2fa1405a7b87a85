"""Resolves `batch_size: auto`: measures, or reuses earlier measurements, and applies the choice."""

from collections.abc import Mapping
from typing import Any

import torch

from redkiln.spec.job_spec import Training
from redkiln.status import Phase
from worker.process.event_log import EventLog
from worker.trainer.autotune.batch_size import (
    Speeds,
    choose_batch_size,
    is_flat,
    list_candidates,
    reference_batch_size,
    scale_rate,
    spread_over_ranks,
)
from worker.trainer.autotune.probing import (
    BUDGET_SECONDS,
    Probe,
    count_saved_bytes,
    find_budget,
    free_bytes,
    measure_speeds,
)
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import settings_of
from worker.trainer.plan import count_samples

BYTES_A_SAVED_BYTE = 2.0
"""Memory of a step divided by that of its activations: their gradients take as much again."""


def tune_batch_size(
    probe: Probe,
    *,
    num_train: int,
    key: Mapping[str, Any],
    remembered: Remembered,
    event_log: EventLog,
    reference: int | None = None,
    num_ranks: int = 1,
) -> None:
    """Set a resolved spec's batch size and, if it is the default, the learning rate that suits it.

    A batch size from the spec is only limited to the size of the training split.

    Args:
        probe: The model on its device, of which a copy is trained briefly. Its training section is
            changed in place; its precision is resolved.
        num_train: Samples in the training split.
        key: Model and input shape as JSON: what the speed depends on besides device and precision.
            Without the number of classes, or every new data set would need a measurement.
        remembered: Earlier measurements on this host and device.
        event_log: Receives messages about measurements and decisions.
        reference: Batch size that the default rate is meant for. None: by the number of samples.
        num_ranks: Devices that share a batch.
    """
    training = probe.training
    if training.batch_size == "auto":
        speeds = _find_speeds(
            probe, num_train=num_train, key=key, of=remembered, event_log=event_log
        )
        size = choose_batch_size(speeds)
        if num_ranks > 1:
            size = spread_over_ranks(size, num_ranks=num_ranks, num_train=num_train)
        size = min(size, num_train)
        _scale_default_rate(training, size, reference or reference_batch_size(num_train))
        event_log.message(describe_choice(size, speeds, lr=training.optimizer.lr))
    else:
        size = min(training.batch_size, num_train)
    training.batch_size = size
    training.accumulation = min(training.accumulation, size)


def describe_choice(batch_size: int, speeds: Speeds, *, lr: float) -> str:
    """Describe the choice and its reason, as a message to the user."""
    measured = ", ".join(f"{size}: {rate:,.0f}" for size, rate in sorted(speeds.rates.items()))
    doubt = f"; timing uncertainty {speeds.doubt:.1%}" if speeds.doubt else ""
    why = f" (samples/s by batch: {measured}{doubt})" if len(speeds.rates) > 1 else ""
    return f"batch_size auto is {batch_size}{why}; lr {lr:g}"


def covers(
    rates: Mapping[int, float], *, tried: int, largest: int, is_thorough: bool = True
) -> bool:
    """Return whether earlier measurements include all that is needed up to a size.

    Args:
        rates: Samples per second by batch size, from the smallest size on.
        tried: Largest batch that was to be measured then.
        largest: Largest batch that the data at hand allow.
        is_thorough: Whether the search then had as much time as this training justifies.
    """
    # A search that ended before its largest size was flat, slow or short of memory.
    has_ended = max(rates) < min(tried, largest)
    if has_ended and not is_thorough and not is_flat(dict(rates)):
        return False
    return largest <= tried or max(rates) < tried


def _scale_default_rate(training: Training, batch_size: int, reference: int) -> None:
    optimizer = training.optimizer
    if optimizer.lr == type(optimizer).model_fields["lr"].default:
        optimizer.lr = scale_rate(optimizer.lr, batch_size=batch_size, reference=reference)


def _find_speeds(
    probe: Probe, *, num_train: int, key: Mapping[str, Any], of: Remembered, event_log: EventLog
) -> Speeds:
    training = probe.training
    sizes = list_candidates(num_train)
    if len(sizes) == 1:
        return Speeds({sizes[0]: 1.0})
    whole_key = {
        **key,
        **settings_of(training),
        "optimizer": training.optimizer.name,
    }
    reference = reference_batch_size(num_train)
    num_samples = count_samples(training, num_train=num_train, batch_size=reference)
    known = of.find("rates_by_batch", whole_key)
    if known is not None:
        rates = {int(size): rate for size, rate in known["rates"].items()}
        # Earlier releases do not record it: they searched for the shortest time.
        is_thorough = known.get("seconds", BUDGET_SECONDS[0]) >= find_budget(
            num_samples / rates[min(rates)]
        )
        if covers(rates, tried=known["tried"], largest=sizes[-1], is_thorough=is_thorough):
            return Speeds(rates, known.get("doubt", 0.0)).up_to(sizes[-1])
    event_log.enter(Phase.WARMING)
    event_log.message("measuring batch sizes, because this is the first such job on this device")
    speeds = _measure(probe, sizes[0], num_train=num_train, num_samples=num_samples)
    if speeds is not None:
        found = {
            "rates": speeds.rates,
            "doubt": speeds.doubt,
            "tried": sizes[-1],
            "seconds": find_budget(num_samples / speeds.rates[min(speeds.rates)]),
        }
        of.save("rates_by_batch", whole_key, found)
    else:
        event_log.message(
            f"not even {sizes[0]} samples fit into the device's memory together with a copy of the "
            "model; training starts with them, and splits batches if memory runs out"
        )
    event_log.enter(Phase.PREPARING)
    return speeds or Speeds({sizes[0]: 1.0})


def _measure(probe: Probe, smallest: int, *, num_train: int, num_samples: int) -> Speeds | None:
    """Return the speed by batch size; None if memory is short from the start."""
    try:
        bytes_a_sample = int(BYTES_A_SAVED_BYTE * count_saved_bytes(probe, smallest) / smallest)
        fitting = list_candidates(
            num_train, bytes_a_sample=bytes_a_sample, free_bytes=free_bytes(probe.device)
        )
        speeds = measure_speeds(probe, fitting, is_enough=is_flat, num_samples=num_samples)
    except torch.OutOfMemoryError:
        speeds = None
    if speeds is None and probe.device.type == "cuda":
        # Outside the handler of the error, which keeps every tensor of the step alive.
        torch.cuda.empty_cache()
    return speeds
