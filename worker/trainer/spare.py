"""Warms a trainer up before it receives a job.

Importing torch takes over a second, the first optimiser and step another one. None of this opens a
GPU, so a spare costs only memory.
"""

from collections.abc import Callable

import torch
from torch.nn import functional

from redkiln.spec.optimizers import AdamW
from redkiln.tasks.image_classification import Model, Options
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.models import build_model
from worker.trainer.optim.optimizer import build_optimizer
from worker.trainer.precision import resolve_precision

WARM_SHAPES: tuple[tuple[str, int, int, int], ...] = (
    ("mnist-cnn", 1, 28, 128),
    ("small-cnn", 3, 32, 64),
)
"""Model, channels, side and batch of common first jobs: oneDNN compiles kernels by shape."""


def warm_up(*, is_job_waiting: Callable[[], bool] = lambda: False) -> None:
    """Run a few steps on the CPU, at the precision that `auto` means there.

    Args:
        is_job_waiting: Whether a job has come; it makes the steps that it needs itself.
    """
    for name, channels, size, batch in WARM_SHAPES:
        if is_job_waiting():
            return
        _warm_up(name, channels, size, batch)


def _warm_up(name: str, channels: int, size: int, batch: int) -> None:
    device = torch.device("cpu")
    precision = resolve_precision("auto", device=device_facts(device))
    options = Options(image_size=size, channels=channels)  # type: ignore[arg-type]
    model = build_model(Model(name=name, options=options), num_classes=10)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, AdamW())
    images = torch.zeros(batch, channels, size, size)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(batch, dtype=torch.int64)
    with autocast_of(device, precision):
        outputs = model(images)
    functional.cross_entropy(outputs.float(), labels).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
