"""Settles `batch_size: auto`: measures, or remembers what was measured, and applies the choice."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

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
from worker.trainer.inputs import Batch
from worker.trainer.plan import count_samples

BYTES_A_SAVED_BYTE = 2.0
"""Memory of a step over that of the activations it keeps: their gradients come on top."""


def tune_batch_size(
    training: Training,
    *,
    model: nn.Module,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    make_batch: Callable[[int], Batch],
    num_train: int,
    key: Mapping[str, Any],
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
    reference: int | None = None,
    num_ranks: int = 1,
) -> None:
    """Give a resolved spec the batch size and, where it was left alone, the rate that goes with it.

    A batch that the spec names is only kept below the training split's size.

    Args:
        training: changed in place; its precision is resolved.
        model: on the device; a copy of it is trained for a moment.
        loss: of outputs and targets.
        make_batch: a made-up batch of so many samples, on the device.
        num_train: samples in the training split.
        key: model and input shape, as JSON: what the speed depends on, beside device and precision.
            Not the number of classes, or every new data set would be measured for.
        device: that it runs on.
        remembered: of this host and device.
        event_log: told what is measured and what came of it.
        reference: batch that the default rate is meant for; by the number of samples if None.
        num_ranks: devices that share a batch.
    """
    if training.batch_size == "auto":
        probe = Probe(model, loss, make_batch, training, device)
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
    """What was chosen and why, for people."""
    measured = ", ".join(f"{size}: {rate:,.0f}" for size, rate in sorted(speeds.rates.items()))
    doubt = f"; told apart to {speeds.doubt:.1%}" if speeds.doubt else ""
    why = f" (samples/s by batch: {measured}{doubt})" if len(speeds.rates) > 1 else ""
    return f"batch_size auto is {batch_size}{why}; lr {lr:g}"


def covers(
    rates: Mapping[int, float], *, tried: int, largest: int, is_thorough: bool = True
) -> bool:
    """Whether rates that were measured once are all that is needed up to a size.

    Args:
        rates: by batch size, from the smallest on.
        tried: the largest batch that was to be measured then.
        largest: batch that the data at hand allow.
        is_thorough: as much time was given to the search as the training at hand is worth.
    """
    # What ended before its largest size was flat, slow or too large for the memory.
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
        # Earlier releases do not say: they searched for the shortest time.
        is_thorough = known.get("seconds", BUDGET_SECONDS[0]) >= find_budget(
            num_samples / rates[min(rates)]
        )
        if covers(rates, tried=known["tried"], largest=sizes[-1], is_thorough=is_thorough):
            return Speeds(rates, known.get("doubt", 0.0)).up_to(sizes[-1])
    event_log.enter(Phase.WARMING)
    event_log.message("finding the batch size: the first job of this kind on this device")
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
        text = f"not even {sizes[0]} samples fit the device's memory beside a copy of the model: "
        event_log.message(text + "training begins with them, and splits them where it has to")
    event_log.enter(Phase.PREPARING)
    return speeds or Speeds({sizes[0]: 1.0})


def _measure(probe: Probe, smallest: int, *, num_train: int, num_samples: int) -> Speeds | None:
    """How fast training is by batch size; None where memory is short from the start."""
    try:
        bytes_a_sample = int(BYTES_A_SAVED_BYTE * count_saved_bytes(probe, smallest) / smallest)
        fitting = list_candidates(
            num_train, bytes_a_sample=bytes_a_sample, free_bytes=free_bytes(probe.device)
        )
        speeds = measure_speeds(probe, fitting, is_enough=is_flat, num_samples=num_samples)
    except torch.OutOfMemoryError:
        speeds = None
    if speeds is None and probe.device.type == "cuda":
        # Behind the handler of the error, which keeps every tensor of the step alive.
        torch.cuda.empty_cache()
    return speeds
