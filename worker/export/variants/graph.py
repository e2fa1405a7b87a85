"""Prepares an exported graph for conversion, and finds the parts that stay in float32."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

WEIGHTED = ("Conv", "Gemm", "MatMul")
"""Operators with weights that are worth quantising."""
NETWORK = "'network'"
"""Scope of the nodes of the network itself, without its preparation of inputs."""
SCOPES = "pkg.torch.onnx.name_scopes"
QUANTISING = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast")
"""Operators that a quantiser puts between the layers."""
MOST_AXES = 2
"""Axes of a weight that int8 kernels multiply with a scale for each channel."""


def load_plain(path: Path) -> Any:
    """Load a graph without the exporter's notes on shapes and source lines.

    The exporter records shapes of weights that a quantised graph replaces, and the converters take
    them for errors.
    """
    model = onnx.load(path)
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    return model


def shorten_names(model: Any) -> Any:
    """Give values inside a quantised graph short names, and none to its (de)quantising nodes.

    Quantising adds several scales and zero points to each layer, named after the weight. In a small
    network these names take as many bytes as the weights. Layers, inputs and outputs keep theirs.

    Returns:
        The same model, unchanged if a node contains a graph.
    """
    if any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute):
        return model
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    inside = [tensor.name for tensor in model.graph.initializer]
    inside += [name for node in model.graph.node for name in node.output]
    wanted = dict.fromkeys(name for name in inside if name and name not in ends)
    free = (name for name in map(_count_up, itertools.count()) if name not in ends)
    short = dict(zip(wanted, free, strict=False))
    for tensor in model.graph.initializer:
        tensor.name = short.get(tensor.name, tensor.name)
    for node in model.graph.node:
        node.input[:] = [short.get(name, name) for name in node.input]
        node.output[:] = [short.get(name, name) for name in node.output]
        if node.op_type in QUANTISING:
            node.name = ""
    return model


def _count_up(number: int) -> str:
    """Return a, b, ..., z, ba, bb, ... for 0, 1, ..."""
    rest, last = divmod(number, 26)
    return (_count_up(rest) if rest else "") + chr(ord("a") + last)


def save_with_metadata(model: Any, path: Path, metadata: dict[str, str]) -> None:
    """Check a graph and save it with the metadata of the model.

    Raises:
        onnx.checker.ValidationError: The graph is not valid.
    """
    del model.metadata_props[:]
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, path)


def find_preparation(path: Path) -> list[str]:
    """Return the nodes that prepare raw inputs, which must stay exact; empty if none are known."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    scopes = {
        node.name: next((p.value for p in node.metadata_props if p.key == SCOPES), "")
        for node in nodes
    }
    if not any(NETWORK in scope for scope in scopes.values()):
        return []
    return [name for name, scope in scopes.items() if NETWORK not in scope]


def list_weights(model: Any) -> dict[str, Any]:
    """Return the weight of each node that multiplies by one, by the node's name, as (..., ...)."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type in WEIGHTED and len(node.input) > 1 and node.input[1] in weights:
            found[node.name] = numpy_helper.to_array(weights[node.input[1]])
    return found


def list_without_weights(model: Any) -> list[str]:
    """Return products of two activations, such as those of attention, which int8 harms most."""
    known = list_weights(model)
    return [
        node.name
        for node in model.graph.node
        if node.op_type in WEIGHTED and node.name not in known
    ]


def list_behind_weights(model: Any) -> list[str]:
    """Return the nodes whose results reach no layer with weights."""
    layers = list_weights(model)
    needed: set[str] = set()
    behind = []
    for node in reversed(model.graph.node):  # sorted, so readers come after what they read
        if node.name in layers or needed.intersection(node.output):
            needed.update(node.input)
        else:
            behind.append(node.name)
    return behind


def may_scale_channels(model: Any) -> bool:
    """Return whether each channel of the weights can have its own scale."""
    kinds = {node.name: node.op_type for node in model.graph.node}
    weights = list_weights(model)
    return all(kinds[name] == "Conv" or np.ndim(w) <= MOST_AXES for name, w in weights.items())
