"""The bare step of a network on images: forward, backward and optimiser, nothing else."""

import time

import torch
from torch import nn
from torch.nn import functional

from bench.image_archives import SIDE
from bench.machine import DEVICE
from bench.turns import Chunks
from redkiln.spec.optimizers import AdamW
from redkiln.tasks.image_classification import Model
from worker.trainer.devices import autocast_of, synchronize
from worker.trainer.models import build_model
from worker.trainer.optim.optimizer import build_optimizer


def bare_chunks(
    memory_format: torch.memory_format, *, model: str, batch: int, precision: str
) -> Chunks:
    """Build a step on resident random tensors, with the job's optimiser, batch and layout."""
    network = build_network(model).to(DEVICE)
    network = network.to(memory_format=memory_format)  # type: ignore[call-overload]
    optimizer = build_optimizer(network, AdamW())
    images = torch.rand(batch, 3, SIDE, SIDE, device=DEVICE)
    images = images.contiguous(memory_format=memory_format)
    labels = torch.randint(0, 10, (batch,), device=DEVICE)

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            with autocast_of(DEVICE, precision):
                outputs = network(images)
            functional.cross_entropy(outputs.float(), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        synchronize(DEVICE)
        return time.perf_counter() - start

    return chunk


def build_network(name: str) -> nn.Module:
    """Build a network of the comparison by its name."""
    options = {"image_size": SIDE, "channels": 3}
    return build_model(Model.model_validate({"name": name, "options": options}), num_classes=10)
