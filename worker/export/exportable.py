"""What is exported: a network with its preprocessing inside, ready on the CPU."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

INPUT = "images"
OUTPUT = "logits"

TRACED_BATCH = 2
"""Batch size of the traced example; torch.export treats 0 and 1 as constants."""


class NormalizedClassifier(nn.Module):
    """Takes pixels in [0, 1] and normalises them itself, so that no caller can get it wrong."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, *, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> (B, classes) logits."""
        logits: torch.Tensor = self.network((images - self.mean) / self.std)
        return logits


@dataclass(frozen=True)
class Exportable:
    """A module on the CPU, in eval mode, with one input and one output.

    Attributes:
        example: (2, C, S, S) float32 in [0, 1].
        architecture: what decides whether it can be exported, as JSON; no weights.
    """

    module: nn.Module
    example: torch.Tensor
    architecture: dict[str, Any]


def make_exportable(
    network: nn.Module,
    *,
    mean: list[float],
    std: list[float],
    image_size: int,
    architecture: dict[str, Any],
) -> Exportable:
    """Copy a network to the CPU and put its normalisation in front.

    `mean` and `std` are those of each channel, in [0, 1].
    """
    # Contiguous, so that the trace does not depend on the layout training liked.
    on_cpu = copy.deepcopy(network).to(device="cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module = NormalizedClassifier(on_cpu, mean=mean, std=std).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    shape = (TRACED_BATCH, len(mean), image_size, image_size)
    return Exportable(module, torch.rand(shape, generator=generator), architecture)
