"""Reads an ONNX file into a `Graph`; refuses what cannot be run, by name and within limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto

from worker.onnx_module import operators  # noqa: F401 - registers all operators
from worker.onnx_module.dtypes import read_constant
from worker.onnx_module.functions import FUNCTIONS
from worker.onnx_module.graph import Constant, Graph, Node
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import NEWEST_OPSET, find_operator, version_of

MOST_NODES = 50_000
"""Most nodes of a file, with all subgraphs and function calls."""
MOST_DEPTH = 16
"""Deepest nesting of subgraphs and functions."""
OWN_DOMAINS = {"ai.onnx": ""}


@dataclass
class _Reading:
    """What is read, and how much of it."""

    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    num_nodes: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def count(self, number: int) -> None:
        self.num_nodes += number
        if self.num_nodes > MOST_NODES:
            raise OnnxRefused(f"the graph has more than {MOST_NODES:,} nodes")


def read_graph(model: onnx.ModelProto) -> Graph:
    """Read a model's graph.

    Raises:
        OnnxRefused: An operator is unknown, the nodes are not sorted or form a cycle, a tensor is
            in another file, or the graph is larger than the limits.
    """
    opsets = _opsets_of(model.opset_import)
    if opsets.get("", 0) > NEWEST_OPSET:
        raise OnnxRefused(
            f"operator set {opsets['']} is too new; export the model with {NEWEST_OPSET} or older"
        )
    functions = {(_domain(one.domain), one.name): one for one in model.functions}
    reading = _Reading(functions)
    graph = _read_graph(model.graph, opsets, frozenset(), reading, depth=0)
    if reading.unknown:
        listed = ", ".join(f"{name} ({count}x)" for name, count in sorted(reading.unknown.items()))
        raise OnnxRefused(f"the file uses operators that are not supported: {listed}")
    return graph


def read_function(
    proto: onnx.FunctionProto, attributes: Mapping[str, onnx.AttributeProto]
) -> Graph:
    """Read the body of a function of ONNX itself, for the attributes of a call.

    Raises:
        OnnxRefused: See `read_graph`.
    """
    reading = _Reading({})
    graph = _read_body(proto, attributes, reading, depth=0)
    if reading.unknown:
        raise OnnxRefused(f"its definition uses {', '.join(reading.unknown)}")
    return graph


def _read_graph(
    proto: onnx.GraphProto,
    opsets: Mapping[str, int],
    outer: frozenset[str],
    reading: _Reading,
    *,
    depth: int,
) -> Graph:
    if proto.sparse_initializer:
        raise OnnxRefused("sparse initialisers are not supported; store them as dense tensors")
    constants = {tensor.name: read_constant(tensor) for tensor in proto.initializer}
    inputs = tuple(value.name for value in proto.input if value.name not in constants)
    nodes = _read_nodes(proto.node, opsets, outer | {*inputs, *constants}, reading, {}, depth=depth)
    outputs = tuple(value.name for value in proto.output)
    known = outer | {*inputs, *constants}.union(*(node.outputs for node in nodes))
    _require(outputs, known, "an output of the graph")
    return Graph(nodes, inputs, outputs, constants)


def _read_body(
    proto: onnx.FunctionProto,
    attributes: Mapping[str, onnx.AttributeProto],
    reading: _Reading,
    *,
    depth: int,
) -> Graph:
    given = {one.name: one for one in proto.attribute_proto} | dict(attributes)
    inputs = tuple(proto.input)
    nodes = _read_nodes(
        proto.node,
        _opsets_of(proto.opset_import),
        frozenset(inputs),
        reading,
        given,
        depth=depth,
    )
    return Graph(nodes, inputs, tuple(proto.output), {})


def _read_nodes(
    protos: Iterable[onnx.NodeProto],
    opsets: Mapping[str, int],
    outer: frozenset[str],
    reading: _Reading,
    given: Mapping[str, onnx.AttributeProto],
    *,
    depth: int,
) -> tuple[Node, ...]:
    if depth > MOST_DEPTH:
        raise OnnxRefused(f"subgraphs and functions are nested deeper than {MOST_DEPTH}")
    nodes, known = [], set(outer)
    for proto in protos:
        reading.count(1)
        _require(proto.input, known, f"node {proto.name or proto.op_type}")
        nodes.append(
            _read_node(proto, opsets, frozenset(known), reading, given, depth=depth)
            if _has_graph(proto)
            else _read_node(proto, opsets, frozenset(), reading, given, depth=depth)
        )
        known |= set(proto.output)
    return tuple(nodes)


def _read_node(
    proto: onnx.NodeProto,
    opsets: Mapping[str, int],
    known: frozenset[str],
    reading: _Reading,
    given: Mapping[str, onnx.AttributeProto],
    *,
    depth: int,
) -> Node:
    domain = _domain(proto.domain)
    protos = [bound for one in proto.attribute if (bound := _bind(one, given)) is not None]
    attributes = {
        one.name: _read_attribute(one, opsets, known, reading, depth=depth) for one in protos
    }
    body, version = None, 0
    function = reading.functions.get((domain, proto.op_type))
    if function is not None:
        body = _read_body(function, {one.name: one for one in protos}, reading, depth=depth + 1)
    else:
        version = _find_version(domain, proto.op_type, opsets, reading)
    bound = onnx.NodeProto()
    bound.CopyFrom(proto)
    del bound.attribute[:]
    bound.attribute.extend(protos)
    is_function = (domain, proto.op_type) in FUNCTIONS
    return Node(
        op=proto.op_type,
        domain=domain,
        name=proto.name,
        version=version,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes,
        body=body,
        source=bound if is_function else None,
        opsets=opsets,
    )


def _find_version(domain: str, name: str, opsets: Mapping[str, int], reading: _Reading) -> int:
    title = f"{domain}:{name}" if domain else name
    if domain not in opsets:
        reading.unknown[title] = reading.unknown.get(title, 0) + 1
        return 0
    try:
        version = version_of(domain, name, opsets[domain])
    except OnnxRefused:
        version = 0
    is_function = FUNCTIONS.get((domain, name), version + 1) <= version
    if find_operator(domain, name, version) is None and not is_function:
        form = f"{title} of operator set {version}" if version else title
        reading.unknown[form] = reading.unknown.get(form, 0) + 1
    return version


def _bind(
    proto: onnx.AttributeProto, given: Mapping[str, onnx.AttributeProto]
) -> onnx.AttributeProto | None:
    """Return an attribute, with the value of the call where it refers to one of a function."""
    if not proto.ref_attr_name:
        return proto
    found = given.get(proto.ref_attr_name)
    if found is None:
        return None
    bound = onnx.AttributeProto()
    bound.CopyFrom(found)
    bound.name = proto.name
    return bound


def _read_attribute(
    proto: onnx.AttributeProto,
    opsets: Mapping[str, int],
    known: frozenset[str],
    reading: _Reading,
    *,
    depth: int,
) -> Any:
    match proto.type:
        case AttributeProto.GRAPH:
            return _read_graph(proto.g, opsets, known, reading, depth=depth + 1)
        case AttributeProto.TENSOR:
            return read_constant(proto.t)
        case AttributeProto.STRING:
            return proto.s.decode(errors="replace")
        case AttributeProto.STRINGS:
            return [one.decode(errors="replace") for one in proto.strings]
        case AttributeProto.FLOAT:
            return proto.f
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.FLOATS:
            return list(proto.floats)
        case AttributeProto.INTS:
            return list(proto.ints)
        case AttributeProto.TYPE_PROTO:
            return None
    raise OnnxRefused(f"attribute {proto.name!r} has a kind that is not supported")


def _has_graph(proto: onnx.NodeProto) -> bool:
    return any(one.type == AttributeProto.GRAPH for one in proto.attribute)


def _require(names: Iterable[str], known: frozenset[str] | set[str], who: str) -> None:
    missing = next((name for name in names if name and name not in known), None)
    if missing is not None:
        raise OnnxRefused(
            f"{who} reads {missing!r}, which no earlier node produces: the graph has a cycle, or "
            "its nodes are not sorted"
        )


def _opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(one.domain): int(one.version) for one in imports}


def _domain(domain: str) -> str:
    return OWN_DOMAINS.get(domain, domain)


__all__ = ["Constant", "read_function", "read_graph"]
