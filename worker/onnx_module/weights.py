"""Which constants of a graph are weights to train, and which stay as they are.

A floating constant is a weight if it reaches a place where networks keep weights: the kernel or
bias of a convolution, a matrix that data is multiplied with, the scale of a normalisation, a bias
that is added. It stays fixed if it is a running statistic, a bound, a factor of one element, or
arithmetic on the input before the first layer, which is preprocessing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from worker.onnx_module.graph import Constant, Graph, Node

SLOTS: dict[str, set[int]] = {
    "BatchNormalization": {1, 2},
    "Conv": {1, 2},
    "ConvTranspose": {1, 2},
    "GRU": {1, 2, 3},
    "Gather": {0},
    "Gemm": {0, 1, 2},
    "GroupNormalization": {1, 2},
    "InstanceNormalization": {1, 2},
    "LSTM": {1, 2, 3, 7},
    "LayerNormalization": {1, 2},
    "MatMul": {0, 1},
    "PRelu": {1},
    "RMSNormalization": {1},
    "RNN": {1, 2, 3},
}
"""Inputs of each operator that are weights."""
ELEMENTWISE = {"Add", "Sub", "Mul", "Div"}
"""Their constants are weights only behind the first layer, and with several elements."""
PASSING = {"Cast", "Concat", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""A weight may go through these before it is used."""


@dataclass(frozen=True)
class Use:
    """Where a weight is used.

    Attributes:
        node: Operator that it is a weight of.
        place: Input of the operator.
        is_transposed: Whether its last two axes are swapped on the way.
    """

    node: Node
    place: int
    is_transposed: bool


def find_weights(graph: Graph) -> dict[str, Use]:
    """Return the constants that are trained, by name with their first use."""
    uses = _find_uses(graph.nodes)
    raw = _find_raw(graph)
    floating = (name for name, value in graph.constants.items() if _is_floating(value))
    found = {name: _find_slot(name, graph.constants, uses, raw) for name in floating}
    return {name: use for name, use in found.items() if use is not None}


def _find_slot(
    name: str,
    constants: Mapping[str, Constant],
    uses: Mapping[str, list[tuple[Node, int]]],
    raw: set[str],
) -> Use | None:
    value = constants[name]
    assert isinstance(value, torch.Tensor)
    waiting, seen = [(name, False)], {name}
    while waiting:
        current, is_transposed = waiting.pop()
        for node, place in uses.get(current, ()):
            if place in SLOTS.get(node.op, ()):
                return Use(node, place, is_transposed)
            others = {one for at, one in enumerate(node.inputs) if at != place}
            if node.op in ELEMENTWISE and value.numel() > 1 and not others & raw:
                return Use(node, place, is_transposed)
            if node.op in PASSING:
                new = set(node.outputs) - seen
                seen |= new
                waiting += [(one, is_transposed != (node.op == "Transpose")) for one in new]
    return None


def _find_raw(graph: Graph) -> set[str]:
    """Return the values that are the graph's inputs, changed by no layer yet."""
    raw = set(graph.inputs)
    for node in graph.nodes:
        if node.op in ELEMENTWISE | PASSING and raw & set(node.inputs):
            raw |= set(node.outputs)
    return raw


def _find_uses(nodes: tuple[Node, ...]) -> dict[str, list[tuple[Node, int]]]:
    uses: dict[str, list[tuple[Node, int]]] = defaultdict(list)
    for node in _walk(nodes):
        for place, name in enumerate(node.inputs):
            uses[name].append((node, place))
    return uses


def _walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Return all nodes, with those of subgraphs."""
    for node in nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _walk(value.nodes)


def _is_floating(value: Constant) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
