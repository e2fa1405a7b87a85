"""What the suite runs: each network with its inputs, for inference and for training.

Batch sizes and image sizes of the first six are those of AI Benchmark, so that times are comparable
in kind (its networks differ in details). Source: the output of the package ai-benchmark 0.1.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from worker.hardware.benchmark.suite import networks

Mode = Literal["inference", "training"]
Inputs = Literal["images", "steps", "tokens"]
CPU_BATCH, CPU_SIDE, CPU_TOKENS = 2, 128, 64
QUICK_BATCH, QUICK_SIDE, QUICK_TOKENS = 1, 48, 16
LEAST_SIDE = {"inception-v3": 96}
"""Inception-V3's pooling leaves nothing of smaller images."""


@dataclass(frozen=True)
class Workload:
    """One network in one mode.

    Attributes:
        size: Side of an image in pixels, or number of tokens or steps.
    """

    network: str
    mode: Mode
    build: Callable[[], nn.Module]
    inputs: Inputs
    batch_size: int
    size: int

    @property
    def id(self) -> str:
        """Name that is the same on every machine."""
        return f"{self.network}/{self.mode}"

    def make_inputs(self, device: torch.device) -> torch.Tensor:
        """Return one batch on a device."""
        if self.inputs == "images":
            return torch.rand(self.batch_size, 3, self.size, self.size, device=device)
        if self.inputs == "steps":
            features = networks.SentimentLstm.FEATURES
            return torch.rand(self.batch_size, self.size, features, device=device)
        return torch.randint(networks.NUM_WORDS, (self.batch_size, self.size), device=device)


TABLE: tuple[tuple[str, Callable[[], nn.Module], Inputs, tuple[int, int], tuple[int, int]], ...] = (
    # network, builder, inputs, (batch, size) of inference, (batch, size) of training
    ("mobilenet-v2", networks.build_mobilenet_v2, "images", (50, 224), (50, 224)),
    ("inception-v3", networks.build_inception_v3, "images", (20, 346), (20, 346)),
    ("resnet-50", networks.build_resnet50, "images", (10, 346), (10, 346)),
    ("vgg-16", networks.build_vgg16, "images", (20, 224), (2, 224)),
    ("u-net", networks.UNet, "images", (4, 512), (4, 256)),
    ("lstm", networks.SentimentLstm, "steps", (100, 1024), (10, 1024)),
    ("bert-small", networks.build_bert, "tokens", (32, 128), (32, 128)),
    ("gpt-small", networks.build_gpt, "tokens", (16, 256), (16, 256)),
)
NETWORKS = tuple(row[0] for row in TABLE)


def list_workloads(*, sizes: Literal["full", "cpu", "quick"]) -> list[Workload]:
    """List all workloads: in full, or with the smaller sizes of a CPU or of a quick check."""
    modes: tuple[Mode, Mode] = ("inference", "training")
    full = [
        Workload(name, mode, build, inputs, *shape)
        for name, build, inputs, *shapes in TABLE
        for mode, shape in zip(modes, shapes, strict=True)
    ]
    return full if sizes == "full" else [_shrink(each, sizes) for each in full]


def _shrink(workload: Workload, sizes: str) -> Workload:
    is_quick = sizes == "quick"
    side, tokens = (QUICK_SIDE, QUICK_TOKENS) if is_quick else (CPU_SIDE, CPU_TOKENS)
    side = max(side, LEAST_SIDE.get(workload.network, 0))
    most = side if workload.inputs == "images" else tokens
    batch = QUICK_BATCH if is_quick else CPU_BATCH
    return replace(
        workload,
        batch_size=max(2, batch) if workload.mode == "training" else batch,
        size=min(workload.size, most),
    )
