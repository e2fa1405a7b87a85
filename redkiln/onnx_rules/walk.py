"""All nodes and tensors of an ONNX file, also those inside subgraphs and functions.

The functions only read a parsed `onnx.ModelProto`, so this module needs no onnx.
"""

from collections.abc import Iterator
from typing import Any


def walk_nodes(model: Any) -> Iterator[tuple[Any, dict[str, int]]]:
    """Return all nodes, with the operator sets that apply to them."""
    waiting = [(model.graph.node, opsets_of(model))]
    waiting += [(function.node, opsets_of(function)) for function in model.functions]
    while waiting:
        nodes, opsets = waiting.pop()
        for node in nodes:
            yield node, opsets
            waiting += [(graph.node, opsets) for graph in graphs_of(node)]


def walk_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Return the initialisers and the tensors in attributes, each with a name for messages.

    Some of the tensors in attributes are empty.
    """
    yield from ((tensor.name, tensor) for tensor in model.graph.initializer)
    for node, _ in walk_nodes(model):
        for graph in graphs_of(node):
            yield from ((tensor.name, tensor) for tensor in graph.initializer)
        for attribute in node.attribute:
            for tensor in (attribute.t, *attribute.tensors):
                yield tensor.name or title_of(node), tensor


def graphs_of(node: Any) -> Iterator[Any]:
    """Return the subgraphs of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def opsets_of(holder: Any) -> dict[str, int]:
    """Return the operator sets of a file or function by domain; "" is ONNX's own."""
    return {entry.domain.replace("ai.onnx", ""): entry.version for entry in holder.opset_import}


def title_of(node: Any) -> str:
    """Return a node as messages name it: its operator, and its name or first output."""
    return f"{node.op_type} ({node.name or next(iter(node.output), 'no output')})"
