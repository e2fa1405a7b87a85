"""The checking process: reads an uploaded model, and prints why it cannot be used, if so.

A model is an ONNX file to train, or a file with weights: of `torch.save`, or safetensors. It runs
nothing of the file. Its arguments are the path, what to look for (a key of `KINDS`), and the
process id of its parent.
"""

import io
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redkiln.onnx_rules.classifier import find_classifier_problem
from redkiln.onnx_rules.operators import NEWEST_OPSET, OPERATORS
from redkiln.onnx_rules.tinygrad import find_tinygrad_problem
from redkiln.onnx_rules.walk import graphs_of, opsets_of, walk_nodes, walk_tensors
from service.datasets.inspect.limits import GIB, Limits, confine

MOST_NODES = 50_000
TORCH_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
"""The number at the beginning of old files of torch.save."""
METADATA = "__metadata__"
"""The entry of a safetensors header that does not describe a tensor."""
LIMITS = Limits(memory_bytes=4 * GIB, table_memory_bytes=4 * GIB, cpu_seconds=60, output_bytes=0)


def find_problem(content: bytes) -> str | None:
    """Return why a file cannot be trained; None if nothing speaks against it."""
    if content[:2] == b"PK":
        return _find_in_torch(content)
    # torch.save before torch 1.6; its pickle is read later, with weights_only.
    if content[:2] == b"\x80\x02" and TORCH_MAGIC in content[:32]:
        return None
    if content[8:9] == b"{":
        return _find_in_safetensors(content)
    try:
        model = _parse(content)
    except ValueError as error:
        return str(error)
    return _find_in_graph(model)


def find_classifier(content: bytes) -> str | None:
    """Return why a stored ONNX file cannot be trained as a classifier of images.

    It may come from a job, so nothing of it need have been checked before.
    """
    try:
        model = _parse(content)
        return find_classifier_problem(model) or _find_in_graph(model)
    except ValueError as error:
        return str(error)


def find_in_engine(content: bytes) -> str | None:
    """Return why the engine tinygrad cannot train a classifier of images."""
    try:
        return find_tinygrad_problem(_parse(content))
    except ValueError as error:
        return str(error)


KINDS = {"file": find_problem, "classifier": find_classifier, "tinygrad": find_in_engine}
"""What to look for: in an upload, in a file that a job trains, and for a job's engine."""


def _parse(content: bytes) -> Any:
    """Parse an ONNX file.

    Raises:
        ValueError: The bytes are not ONNX, or have no graph.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        raise ValueError("the file is not ONNX; export the model again") from None
    if not model.graph.node:
        raise ValueError("the file has no graph; is it really an ONNX model?")
    return model


def _find_in_graph(model: Any) -> str | None:
    opsets = opsets_of(model)
    if opsets.get("", 0) > NEWEST_OPSET:
        return f"operator set {opsets['']} is too new; export with {NEWEST_OPSET} or older"
    own = {(function.domain, function.name) for function in model.functions}
    unknown: Counter[str] = Counter()
    for number, (node, versions) in enumerate(walk_nodes(model)):
        if number >= MOST_NODES:
            return f"the graph has more than {MOST_NODES:,} nodes"
        if (node.domain, node.op_type) not in own and (form := _find_unknown(node, versions)):
            unknown[form] += 1
    if unknown:
        return f"these operators are not supported: {', '.join(sorted(unknown)[:20])}"
    if any(tensor.external_data for _, tensor in walk_tensors(model)):
        return "some tensors are stored outside of the file; save the model as one file"
    return _find_disorder(model.graph, frozenset())


def _find_disorder(graph: Any, outer: frozenset[str]) -> str | None:
    """Return which node reads what no earlier node makes."""
    known = {*outer, "", *(one.name for one in (*graph.input, *graph.initializer))}
    known |= {one.values.name for one in graph.sparse_initializer}
    for node in graph.node:
        missing = next((name for name in node.input if name not in known), None)
        if missing is not None:
            return (
                f"node {node.name or node.op_type} reads {missing!r}, which no earlier node "
                "produces: the graph has a cycle, or its nodes are not sorted"
            )
        for inner in graphs_of(node):
            if problem := _find_disorder(inner, frozenset(known)):
                return problem
        known.update(node.output)
    return None


def _find_in_torch(content: bytes) -> str | None:
    """Look into a file of `torch.save` without reading its pickle."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        return f"the file looks like a file of torch.save, but it is damaged: {error}"
    if any(name.endswith("/data.pkl") for name in names):
        return None
    return (
        "the file is a zip that torch.save did not write; use torch.save(model.state_dict(), FILE)"
    )


def _find_in_safetensors(content: bytes) -> str | None:
    length = int.from_bytes(content[:8], "little")
    try:
        tensors = json.loads(content[8 : 8 + length])
        last = max((one["data_offsets"][1] for key, one in tensors.items() if key != METADATA))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return "the file looks like safetensors, but its header cannot be read"
    if 8 + length + last != len(content):
        return "the file looks like safetensors, but it is cut short; upload it again"
    return None


def _find_unknown(node: Any, opsets: Mapping[str, int]) -> str | None:
    """Return an operator's name if no supported form of it applies."""
    import onnx

    if node.domain not in ("", "ai.onnx"):
        return f"{node.domain}:{node.op_type}"
    if node.op_type not in OPERATORS:
        return str(node.op_type)
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets.get("", 0), "")
    except onnx.defs.SchemaError:
        return f"{node.op_type} of operator set {opsets.get('', 0)}"
    is_old = schema.since_version < OPERATORS[node.op_type]
    return f"{node.op_type} of operator set {schema.since_version}" if is_old else None


def main() -> None:
    """Check the file at the first argument."""
    confine(LIMITS, parent_pid=int(sys.argv[3]))
    sys.stdout.write(KINDS[sys.argv[2]](Path(sys.argv[1]).read_bytes()) or "")


if __name__ == "__main__":
    main()
