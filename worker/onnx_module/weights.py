"""Which constants of a graph are weights to train, and which stay as they are.

A floating constant is a weight if it reaches a place where networks keep weights: the kernel or
bias of a convolution, a matrix that data is multiplied with, the scale of a normalisation, a bias
that is added. It stays fixed if it is a running statistic, a bound, a factor of one element, or
arithmetic on the input before the first layer, which is preprocessing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

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


def find_weights(graph: Graph) -> set[str]:
    """Return the names of the constants that are trained."""
    uses = _find_uses(graph.nodes)
    raw = _find_raw(graph)
    floating = (name for name, value in graph.constants.items() if _is_floating(value))
    return {name for name in floating if _reaches_slot(name, graph.constants, uses, raw)}


def _reaches_slot(
    name: str,
    constants: Mapping[str, Constant],
    uses: Mapping[str, list[tuple[Node, int]]],
    raw: set[str],
) -> bool:
    value = constants[name]
    assert isinstance(value, torch.Tensor)
    waiting, seen = [name], {name}
    while waiting:
        for node, place in uses.get(waiting.pop(), ()):
            if place in SLOTS.get(node.op, ()):
                return True
            others = {one for at, one in enumerate(node.inputs) if at != place}
            if node.op in ELEMENTWISE and value.numel() > 1 and not others & raw:
                return True
            if node.op in PASSING:
                new = set(node.outputs) - seen
                seen |= new
                waiting += new
    return False


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
