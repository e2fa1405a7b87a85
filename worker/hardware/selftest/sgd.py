"""A short training run that combines everything tested: 20 steps, compared with float64 on the CPU.

Wrong gradients, NaN and broken updates show here whichever kernel causes them, even one that no
single test uses.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from redkiln.views.hardware import Precision

STEPS = 20
NUM_CLASSES = 4
BATCH, CHANNELS, SIDE = 32, 3, 12
RATE, MOMENTUM = 0.02, 0.9
LOSS_SCALE = 256.0
"""Keeps small float16 gradients from underflowing; scaling by a power of two is exact."""
DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


@dataclass(frozen=True)
class Run:
    """Results of a run: the loss of each step, and the weights after the last one."""

    losses: torch.Tensor
    weights: list[torch.Tensor]


def train(device: torch.device, *, dtype: torch.dtype, precision: Precision, seed: int) -> Run:
    """Train a small convolutional network for a few steps.

    Args:
        device: Device to train on.
        dtype: Type of the weights; float64 for the reference.
        precision: Type of the forward pass under autocast.
        seed: Seed of weights and images, which are drawn on the CPU.
    """
    images, labels = (t.to(device) for t in _draw_data(seed, dtype=dtype))
    model = _build_model(seed).to(device=device, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    scale = LOSS_SCALE if precision == "fp16" else 1.0
    losses = []
    for step in range(STEPS):
        rows = slice(step % 2 * BATCH, step % 2 * BATCH + BATCH)
        with torch.autocast(device.type, dtype=DTYPES[precision], enabled=precision != "fp32"):
            logits = model(images[rows])
        loss = functional.cross_entropy(logits.to(dtype), labels[rows])
        (loss * scale).backward()  # type: ignore[no-untyped-call]
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.div_(scale)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return Run(torch.stack(losses), [p.detach() for p in model.parameters()])


def _draw_data(seed: int, *, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(NUM_CLASSES, CHANNELS, SIDE, SIDE, generator=generator)
    labels = torch.arange(2 * BATCH) % NUM_CLASSES
    noise = torch.randn(2 * BATCH, CHANNELS, SIDE, SIDE, generator=generator)
    return (0.5 * patterns[labels] + noise).to(dtype), labels


def _build_model(seed: int) -> nn.Sequential:
    model = nn.Sequential(
        nn.Conv2d(CHANNELS, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, NUM_CLASSES),
    )
    # Not torch's own initialisation, which draws from the global generator.
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                parameter.normal_(0, (2 / fan_in) ** 0.5, generator=generator)
        model[-1].bias.zero_()  # type: ignore[operator]
    return model
