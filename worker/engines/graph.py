"""A network as a graph that an engine runs: its nodes, and torch's tensors that they read.

A network that was read from an ONNX file is such a graph already. Another network is exported
once; its constants keep the names of its parameters, so the graph reads torch's own tensors.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import torch
from onnx import inliner
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from worker.export.exportable import Exportable
from worker.export.onnx_file import export_as_it_is
from worker.onnx_module.graph import Graph, Node
from worker.onnx_module.module import NORM_FIELDS, OnnxModule
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.sizes import read_numbers
from worker.onnx_module.stored import drop_unread
from worker.trainer.models.dropout import ByteDropout

Mask = Callable[[tuple[int, ...]], torch.Tensor]
"""Draws the factors of a dropout for a shape."""
MARK = "redkiln_dropout"


@dataclass(frozen=True)
class EngineGraph:
    """A graph with torch's tensors.

    Attributes:
        graph: Nodes, inputs and outputs, and the constants that stay on the host.
        weights: Parameters that are trained, by their names in the graph.
        buffers: All other tensors by name.
        norms: Batch norms by `Node.special`.
        masks: Dropouts by the first output of their nodes.
    """

    graph: Graph
    weights: Mapping[str, nn.Parameter]
    buffers: Mapping[str, torch.Tensor]
    norms: Mapping[str, _BatchNorm]
    masks: Mapping[str, Mask]


def build_graph(network: nn.Module, example: tuple[torch.Tensor, ...]) -> EngineGraph:
    """Return the graph of a network.

    Args:
        network: The network in training.
        example: Inputs (B, ...) to export it with.

    Raises:
        OnnxRefused: The network cannot be exported, or its batch norms share weights.
    """
    if isinstance(network, OnnxModule):
        return _of_onnx(network)
    traced, dropouts = _mark_dropouts(network)
    lens = OnnxModule(_export(traced, example))
    known: dict[str, torch.Tensor] = dict(network.named_parameters(remove_duplicate=False))
    known |= dict(network.named_buffers(remove_duplicate=False))
    tensors = {name: known.get(name, value) for name, value in lens.list_tensors().items()}
    norms = {key: _find_norm(network, lens, key) for key in lens.norms}
    found = _finish(lens, tensors, norms, _find_masks(lens, dropouts))
    _require_all(network, found)
    return found


def _require_all(network: nn.Module, graph: EngineGraph) -> None:
    """Refuse a graph in which a weight became a constant, because it would not be trained."""
    there = {id(parameter) for parameter in graph.weights.values()}
    lost = [
        name
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and id(parameter) not in there
    ]
    if lost:
        raise OnnxRefused(f"the exported graph does not read these weights: {', '.join(lost[:5])}")


def _of_onnx(network: OnnxModule) -> EngineGraph:
    norms = {key: norm for key, norm in network.norms.items() if isinstance(norm, _BatchNorm)}
    masks = {
        node.outputs[0]: _mask_of_node(node, network)
        for node in network.graph.nodes
        if node.op == "Dropout"
    }
    return _finish(network, network.list_tensors(), norms, masks)


def _finish(
    lens: OnnxModule,
    tensors: Mapping[str, torch.Tensor],
    norms: Mapping[str, _BatchNorm],
    masks: Mapping[str, Mask],
) -> EngineGraph:
    tensors = dict(tensors)
    for key, norm in norms.items():
        tensors |= {f"{key}.{field}": getattr(norm, field) for field in NORM_FIELDS}
    weights = {
        name: tensor
        for name, tensor in tensors.items()
        if isinstance(tensor, nn.Parameter) and tensor.requires_grad
    }
    buffers = {name: tensor for name, tensor in tensors.items() if name not in weights}
    if any(node.op == "BatchNormalization" and not node.special for node in lens.graph.nodes):
        raise OnnxRefused("batch norms that share their weights are not supported")
    return EngineGraph(lens.graph, weights, buffers, norms, masks)


class _Marked(nn.Module):
    """Multiplies by a constant with a telling name, which marks a dropout in the exported graph."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer(MARK, torch.tensor(1.0))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        marked: torch.Tensor = values * self.get_buffer(MARK)
        return marked


def _mark_dropouts(network: nn.Module) -> tuple[nn.Module, dict[str, nn.Module]]:
    """Return a copy for the export, and the dropouts by the names of their marks."""
    copied = copy.deepcopy(network).eval()
    found = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, (nn.Dropout, ByteDropout)) and module.p > 0
    }
    for name in found:
        parent, _, own = name.rpartition(".")
        setattr(copied.get_submodule(parent), own, _Marked())
    return copied, {f"{name}.{MARK}": module for name, module in found.items()}


def _find_masks(lens: OnnxModule, dropouts: Mapping[str, nn.Module]) -> dict[str, Mask]:
    masks: dict[str, Mask] = {}
    for node in lens.graph.nodes:
        mark = next((name for name in node.inputs if name in dropouts), None)
        if mark is not None:
            masks[node.outputs[0]] = partial(_drop_ones, dropouts[mark])
    return masks


def _drop_ones(dropout: nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    factors: torch.Tensor = dropout(torch.ones(shape))
    return factors


def _mask_of_node(node: Node, network: OnnxModule) -> Mask:
    ratio = node.attributes.get("ratio", 0.5)
    if len(node.inputs) > 1 and node.inputs[1]:
        known = {**network.graph.constants, **network.list_tensors()}
        ratio = read_numbers(known[node.inputs[1]])[0]
    return lambda shape: functional.dropout(torch.ones(shape), ratio, training=True)


def _export(network: nn.Module, example: tuple[torch.Tensor, ...]) -> onnx.ModelProto:
    """Export a network without merging its batch norms, so that constants keep their names."""
    named = {f"x{place}": one for place, one in enumerate(example)}
    exportable = Exportable(network, examples=named, others=named, output="y", architecture={})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            export_as_it_is(exportable, path)
        # torch's exporter raises many kinds of errors.
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise OnnxRefused(f"the network has no ONNX graph: {first}") from error
        model = inliner.inline_local_functions(onnx.load(path))
    drop_unread(model)
    return model


def _find_norm(network: nn.Module, lens: OnnxModule, key: str) -> _BatchNorm:
    name = lens.names[f"norms.{key}.running_mean"].rpartition(".")[0]
    norm = network.get_submodule(name)
    if not isinstance(norm, _BatchNorm):
        raise OnnxRefused(f"{name} is not a batch norm of torch")
    return norm
