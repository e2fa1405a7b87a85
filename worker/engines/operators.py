"""Runs a graph with tinygrad, operator after operator.

tinygrad has functions for ONNX's operators, some of them wrong. Only those in `SUPPORTED` are used;
a test compares each of them, and its gradient, with torch. Shapes are Python numbers here too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from redkiln.onnx_rules.tinygrad import SUPPORTED, describe_unsupported
from worker.engines.graph import EngineGraph
from worker.onnx_module.call import State
from worker.onnx_module.dtypes import keep_on_host
from worker.onnx_module.graph import Node
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.run import run_graph, run_node
from worker.onnx_module.sizes import Sizes, read_numbers

NUMBERS = {
    "Expand": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that tinygrad's functions take as Python numbers."""


def refuse_unsupported(graph: EngineGraph) -> None:
    """Check that the engine has all operators of a graph.

    Raises:
        OnnxRefused: It lacks some; the text names them.
    """
    nodes = ((node.op, node.title) for node in graph.graph.nodes if not node.special)
    if problem := describe_unsupported(nodes):
        raise OnnxRefused(problem)


@dataclass
class Run:
    """One run of a graph with tinygrad's tensors.

    Attributes:
        functions: tinygrad's functions for ONNX's operators.
        make_tensor: Makes a tensor of tinygrad of numbers.
        masks: Factors of each dropout by output; None in evaluation.
        statistics: Mean, variance and number of values of each batch norm that trains, in the order
            of the nodes.
        dropped: Shape of each dropout's input.
        outputs: The graph's output.
    """

    functions: Mapping[str, Any]
    make_tensor: Callable[[Any], Any]
    masks: Mapping[str, Any] | None = None
    statistics: list[tuple[Any, Any, int]] = field(default_factory=list)
    dropped: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: Any = None

    def run(self, graph: EngineGraph, inputs: Sequence[Any], tensors: Mapping[str, Any]) -> None:
        """Compute the graph's output."""
        values: dict[str, Any] = {**graph.graph.constants, **tensors}
        values |= zip(graph.graph.inputs, inputs, strict=True)
        for node in graph.graph.nodes:
            given = [values[name] if name else None for name in node.inputs]
            if node.special:
                result = self._norm(node, graph.norms[node.special], given[0], values)
            elif node.op == "Dropout" or node.outputs[0] in graph.masks:
                result = self._drop(node.outputs[0], given[0])
            else:
                result = self._call(node, given)
            values[node.outputs[0]] = result
        self.outputs = values[graph.graph.outputs[0]]

    def _drop(self, name: str, x: Any) -> Any:
        self.dropped[name] = tuple(x.shape)
        return x if self.masks is None else x * self.masks[name]

    def _norm(self, node: Node, norm: _BatchNorm, x: Any, values: Mapping[str, Any]) -> Any:
        key = node.special
        weight, bias, mean, variance = (
            values[f"{key}.{name}"] for name in ("weight", "bias", "running_mean", "running_var")
        )
        shape = (1, -1, *([1] * (x.ndim - 2)))
        if self.masks is not None and norm.training:
            axes = tuple(axis for axis in range(x.ndim) if axis != 1)
            mean = x.mean(axes)
            variance = (x - mean.reshape(shape)).square().mean(axes)
            num_values = x.numel() // x.shape[1]
            self.statistics.append((mean.detach(), variance.detach(), num_values))
        scale = weight * (variance + norm.eps).rsqrt()
        return (x - mean.reshape(shape)) * scale.reshape(shape) + bias.reshape(shape)

    def _call(self, node: Node, given: Sequence[Any]) -> Any:
        if node.op == "Shape":
            sizes = list(given[0].shape)[node.attributes.get("start", 0) :]
            end = node.attributes.get("end")
            return Sizes(tuple(sizes if end is None else list(given[0].shape)[: int(end)]))
        if all(isinstance(value, Sizes) for value in given) and given:
            return _compute_sizes(node, given)
        places = NUMBERS.get(node.op, ())
        converted = [self._convert(value, place in places) for place, value in enumerate(given)]
        function = self._find(node)
        result = function(*converted, **_plain(node.attributes))
        return result[0] if isinstance(result, tuple) else result

    def _convert(self, value: Any, as_numbers: bool) -> Any:
        if value is None:
            return None
        if as_numbers:
            return read_numbers(value)
        if isinstance(value, Sizes):
            return self.make_tensor(value.values[0] if value.is_scalar else list(value.values))
        if isinstance(value, torch.Tensor):
            return self.make_tensor(value.tolist())
        return value

    def _find(self, node: Node) -> Callable[..., Any]:
        if node.op not in SUPPORTED:
            raise OnnxRefused(f"the engine tinygrad does not run {node.title}")
        found = self.functions[node.op]
        if callable(found):
            function: Callable[..., Any] = found
            return function
        versions: dict[int, Callable[..., Any]] = {
            key.version: one for key, one in found.items() if key.domain.value in ("", "ai.onnx")
        }
        return versions[max(version for version in versions if version <= node.version)]


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in attributes.items()
    }


def _compute_sizes(node: Node, given: Sequence[Any]) -> Any:
    found = run_node(node, given, {}, State(torch.device("cpu"), run_graph))[0]
    return keep_on_host(found) if isinstance(found, torch.Tensor) else found
