"""Runs a graph: one operator after another, with each value freed after its last use."""

import re
from collections.abc import Sequence
from typing import Any

import onnx
import torch

from worker.onnx_module.call import MOST_RUN, Call, State, Values
from worker.onnx_module.dtypes import ELEMENT_TYPES
from worker.onnx_module.functions import FUNCTIONS
from worker.onnx_module.graph import Graph, Node
from worker.onnx_module.read import read_function
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import find_operator
from worker.onnx_module.sizes import Sizes, read_numbers

FAULTS = re.compile(r"DefaultCPUAllocator|miopenStatus|(HIP|CUDA|hipBLAS|CUBLAS) error|HSA_STATUS")
"""Errors of memory and GPUs that torch raises as a plain RuntimeError."""


def run_graph(graph: Graph, values: Values, state: State) -> list[Any]:
    """Run a graph and return its outputs.

    Args:
        graph: The graph.
        values: Its inputs by name; all results are added and removed as they are needed.
        state: State that the nodes share.

    Raises:
        OnnxRefused: An operator cannot run on these values; the text names the node.
    """
    for name, constant in graph.constants.items():
        values.setdefault(name, constant)
    for node, dead in zip(graph.nodes, graph.last_uses, strict=True):
        state.run_left -= 1
        if state.run_left < 0:
            raise OnnxRefused(f"one pass runs more than {MOST_RUN:,} nodes; loops are too long")
        inputs = [values[name] if name else None for name in node.inputs]
        for name, value in zip(node.outputs, _run_named(node, inputs, values, state), strict=False):
            if name:
                values[name] = value
        for name in dead:
            values.pop(name, None)
    # A definition may leave out outputs that its call does not use.
    return [values.get(name) for name in graph.outputs]


def run_node(node: Node, inputs: Sequence[Any], values: Values, state: State) -> Sequence[Any]:
    """Run one node and return all of its outputs."""
    if node.special:
        return (state.special[node.special](*_as_tensors(inputs, state)),)
    if node.body is not None:
        return _run_function(node.body, inputs, state)
    found = find_operator(node.domain, node.op, node.version)
    if found is None:
        return _run_function(_expand(node, inputs), inputs, state)
    call = Call(node, state, values)
    given = [value for value in inputs if value is not None]
    if found.host is not None and all(isinstance(value, Sizes) for value in given):
        result = found.host(call, *inputs)
        if result is not NotImplemented:
            return result if isinstance(result, tuple) else (result,)
    result = found.run(call, *_as_tensors(inputs, state, sizes=found.sizes))
    return result if isinstance(result, tuple) else (result,)


def _run_named(node: Node, inputs: Sequence[Any], values: Values, state: State) -> Sequence[Any]:
    try:
        return run_node(node, inputs, values, state)
    except OnnxRefused as error:
        if error.args and str(error).startswith("node "):
            raise
        raise OnnxRefused(f"node {node.title}: {error}") from error
    except (torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    # torch and Python raise many kinds of errors on values that an operator does not accept.
    except (
        RuntimeError,
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        NotImplementedError,
    ) as error:
        # These say something about the machine, not about the node.
        if "out of memory" in str(error) or FAULTS.search(str(error)):
            raise
        first = str(error).strip().partition("\n")[0]
        shapes = ", ".join(_describe(value) for value in inputs)
        message = f"node {node.title} cannot run on {shapes}: {type(error).__name__}: {first}"
        raise OnnxRefused(message) from error


def _run_function(body: Graph, inputs: Sequence[Any], state: State) -> list[Any]:
    padded = [*inputs, *([None] * (len(body.inputs) - len(inputs)))]
    return run_graph(body, dict(zip(body.inputs, padded, strict=False)), state)


def _expand(node: Node, inputs: Sequence[Any]) -> Graph:
    """Return the definition of an operator that is a function, for the types of these inputs."""
    key = tuple(None if value is None else _type_key(value) for value in inputs)
    known: dict[Any, Graph] = node.__dict__.setdefault("_expanded", {})
    if key not in known:
        known[key] = _find_definition(node, inputs)
    return known[key]


def _find_definition(node: Node, inputs: Sequence[Any]) -> Graph:
    if (node.domain, node.op) not in FUNCTIONS:
        raise OnnxRefused("the operator is not supported")
    opset = node.opsets[node.domain]
    schema: Any = onnx.defs.get_schema(node.op, opset, node.domain)
    given = {name: one.default_value for name, one in schema.attributes.items()}
    attributes = {name: one for name, one in given.items() if one.type}
    attributes |= {one.name: one for one in node.source.attribute}
    if versions := schema.function_opset_versions:
        version = _newest(versions, opset)
        proto = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
    else:
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        proto = _define(schema, version, node, [_type_of(value) for value in inputs])
    if not any(one.domain == "" for one in proto.opset_import):
        proto.opset_import.add(domain="", version=version if node.domain == "" else node.opsets[""])
    return read_function(proto, attributes)


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=versions[0])


def _define(schema: Any, version: int, node: Node, types: list[bytes]) -> onnx.FunctionProto:
    content = schema.get_context_dependent_function_with_opset_version(
        version, node.source.SerializeToString(), types
    )
    proto: onnx.FunctionProto = onnx.FunctionProto.FromString(content)
    if not proto.node:
        raise OnnxRefused("the operator has no definition for these inputs")
    return proto


def _type_key(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Sizes):
        return (torch.int64, 0 if value.is_scalar else 1)
    if isinstance(value, list):
        return ("sequence",)
    return (value.dtype, value.ndim)


def _type_of(value: Any) -> bytes:
    """Return a value's type as a protobuf message, without sizes."""
    proto = onnx.TypeProto()
    if value is None:
        return bytes(proto.SerializeToString())
    dtype, rank = _type_key(value)
    proto.tensor_type.elem_type = ELEMENT_TYPES[dtype]
    proto.tensor_type.shape.SetInParent()
    for _ in range(rank):
        proto.tensor_type.shape.dim.add()
    return bytes(proto.SerializeToString())


def _as_tensors(inputs: Sequence[Any], state: State, *, sizes: Any = ()) -> list[Any]:
    """Return the inputs as an operator wants them: tensors, and lists of numbers at `sizes`."""
    device = next((v.device for v in inputs if isinstance(v, torch.Tensor)), state.device)
    result: list[Any] = []
    for place, value in enumerate(inputs):
        if value is not None and place in sizes:
            result.append(read_numbers(value))
        elif isinstance(value, Sizes):
            result.append(value.to_tensor(device))
        else:
            result.append(value)
    return result


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, Sizes):
        return f"sizes {list(value.values)}"
    return "nothing" if value is None else type(value).__name__
