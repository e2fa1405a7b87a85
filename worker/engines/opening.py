"""Opens the engine that a job asks for, for its network."""

from pathlib import Path

import torch
from torch import nn

from redkiln.failure import FailureCode
from worker.engines.graph import build_graph
from worker.engines.network import EngineNetwork
from worker.engines.tinygrad_device import VULKAN, open_tinygrad
from worker.engines.tinygrad_engine import TinygradEngine
from worker.onnx_module.refused import OnnxRefused
from worker.process.failed import TrainingFailed


def open_engine(
    network: nn.Module,
    example: tuple[torch.Tensor, ...],
    *,
    cache_dir: Path,
    device: str | None = None,
) -> EngineNetwork:
    """Return a network whose passes tinygrad runs.

    Args:
        network: The network, on the CPU; it keeps the weights.
        example: Inputs (B, ...), B at least 2.
        cache_dir: Folder of the worker's caches.
        device: tinygrad's name of the device; None for the one that Vulkan offers.

    Raises:
        TrainingFailed: The worker has no device for it, or the engine cannot run the network.
    """
    opened = open_tinygrad(cache_dir, device or VULKAN)
    try:
        graph = build_graph(network, example)
        engine = TinygradEngine(graph, opened)
    except OnnxRefused as error:
        message = f"{error}; set resources.engine to torch, or choose another model"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/resources/engine") from error
    return EngineNetwork(network, graph, engine, size=len(example[0]))
