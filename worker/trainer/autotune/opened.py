"""Measures what `auto` left open in a job: the precision, then the batch size."""

from collections.abc import Mapping
from typing import Any

from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.trainer.autotune.precision_trial import tune_precision
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.sizing import tune_batch_size
from worker.trainer.devices import device_facts
from worker.trainer.precision import deny, list_contenders


def measure_open(
    probe: Probe,
    order: Order,
    *,
    num_train: int,
    is_precision_open: bool,
    key: Mapping[str, Any],
    remembered: Remembered,
    event_log: EventLog,
) -> None:
    """Measure the precision, if the spec left it open, and a batch size that is still `auto`.

    Args:
        probe: The model with its resolved training section, which is changed.
        order: The job's order.
        num_train: Samples in the training split.
        is_precision_open: Whether the spec's precision was `auto`.
        key: Everything that decides the time of a step.
        remembered: Earlier measurements on this device.
        event_log: The job's log.
    """
    if is_precision_open:
        assert probe.training.precision != "auto"
        facts = deny(device_facts(probe.device, patches=order.patches), order.denied)
        tune_precision(
            probe,
            list_contenders(facts, resolved=probe.training.precision),
            num_train=num_train,
            key=key,
            remembered=remembered,
            event_log=event_log,
        )
    tune_batch_size(
        probe,
        num_train=num_train,
        key=key,
        remembered=remembered,
        event_log=event_log,
        num_ranks=order.num_ranks,
    )
