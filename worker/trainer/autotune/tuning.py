"""Chooses how a prepared job computes: memory layout, compiled model, its number of processors."""

import os
from collections.abc import Callable
from typing import Any

import torch

from redkiln.spec.job_spec import TrainingSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.trainer.autotune.compiling import tune_compile
from worker.trainer.autotune.layout import asked_layout, tune_layout
from worker.trainer.autotune.processors import tune_processors
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.setup import TrainingSetup


def tune_setup(
    setup: TrainingSetup,
    order: Order,
    spec: TrainingSpec,
    device: torch.device,
    event_log: EventLog,
    *,
    steps_made: int,
) -> Callable[..., Any] | None:
    """Choose the memory layout, and return the compiled model where compiling pays off."""
    remembered = Remembered.on(device, order.paths.cache_dir)
    tune_layout(
        setup,
        asked=asked_layout(spec),
        device=device,
        remembered=remembered,
        event_log=event_log,
        steps_made=steps_made,
    )
    forward = tune_compile(
        setup, device=device, remembered=remembered, event_log=event_log, steps_made=steps_made
    )
    return tune_processors(
        setup,
        forward,
        device=device,
        environ=os.environ,
        remembered=remembered,
        event_log=event_log,
    )
