"""A user's ONNX file for export: the same graph with the trained weights.

Shapes: B batch, C channels, S side in pixels.
"""

import copy
from functools import partial
from pathlib import Path

import onnx
import torch
from torch import nn

from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.onnx_module.module import OnnxModule
from worker.onnx_module.write import write_weights
from worker.trainer.models.from_onnx import OnnxFile


def make_onnx_exportable(network: nn.Module, *, file: OnnxFile, image_size: int) -> Exportable:
    """Copy a network to the CPU; its file is written without torch's exporter.

    The network takes (B, C, S, S) float32 in [0, 1], like its file.
    """
    assert isinstance(network, OnnxModule)
    on_cpu = copy.deepcopy(network).to(device="cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    classifier = file.classifier
    shape = (classifier.channels, image_size, image_size)
    generator = torch.Generator().manual_seed(0)
    return Exportable(
        on_cpu.eval().requires_grad_(False),
        examples={classifier.input: torch.rand((TRACED_BATCH, *shape), generator=generator)},
        others={classifier.input: torch.rand((OTHER_BATCH, *shape), generator=generator)},
        output=classifier.output,
        architecture={"source": "onnx", "sha256": file.sha256, "size": image_size}
        | {"names": sorted(on_cpu.names.values()), "head": _shapes(on_cpu)},
        write=partial(_write, classifier.model),
    )


def _write(model: onnx.ModelProto, network: nn.Module, path: Path) -> None:
    assert isinstance(network, OnnxModule)
    onnx.save_model(write_weights(model, network.weights_by_name()), path)


def _shapes(network: OnnxModule) -> list[list[int]]:
    return [list(parameter.shape) for parameter in network.head.values()]
