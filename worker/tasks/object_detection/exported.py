"""A detector for export: it takes pixels in [0, 1] and normalises them itself.

Shapes: B batch, C channels, S side in pixels, A cells, K classes.
"""

import copy
from typing import Any

import torch
from torch import nn

from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.trainer.detection.detector import Detector

INPUT = "images"
OUTPUT = "raw"


class NormalizedDetector(nn.Module):
    """Normalises pixels in [0, 1] itself, so that callers cannot get it wrong."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, detector: Detector, *, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.detector = detector
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> (B, A, 4 * BINS + K), as the detector returns it."""
        raw: torch.Tensor = self.detector((images - self.mean) / self.std)
        return raw


def make_exportable(
    detector: Detector, *, mean: list[float], std: list[float], architecture: dict[str, Any]
) -> Exportable:
    """Copy a detector to the CPU and put its normalisation in front.

    `mean` and `std` are those of each channel, in [0, 1].
    """
    # Contiguous, so that the trace does not depend on the layout used for training.
    on_cpu = copy.deepcopy(detector).to(device="cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module = NormalizedDetector(on_cpu, mean=mean, std=std).eval().requires_grad_(False)
    shape = (len(mean), detector.image_size, detector.image_size)
    return Exportable(
        module=module,
        examples={INPUT: _draw(TRACED_BATCH, *shape)},
        others={INPUT: _draw(OTHER_BATCH, *shape)},
        output=OUTPUT,
        architecture=architecture,
    )


def _draw(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[0])
    return torch.rand(shape, generator=generator)
