"""The checking process: reads an uploaded model, and prints why it cannot be used, if so.

A model is an ONNX file to train, or a file with weights: of `torch.save`, or safetensors. It runs
nothing of the file. Its arguments are the path and the process id of its parent.
"""

import io
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redkiln.onnx_operators import NEWEST_OPSET, OPERATORS
from service.datasets.inspect.limits import GIB, Limits, confine

MOST_NODES = 50_000
METADATA = "__metadata__"
"""The entry of a safetensors header that does not describe a tensor."""
LIMITS = Limits(memory_bytes=4 * GIB, table_memory_bytes=4 * GIB, cpu_seconds=60, output_bytes=0)


def find_problem(content: bytes) -> str | None:
    """Return why a file cannot be trained; None if nothing speaks against it."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if content[:2] == b"PK":
        return _find_in_torch(content)
    if content[8:9] == b"{":
        return _find_in_safetensors(content)
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        return "the file is not ONNX; export the model again"
    if not model.graph.node:
        return "the file has no graph; is it really an ONNX model?"
    opsets = {entry.domain.replace("ai.onnx", ""): entry.version for entry in model.opset_import}
    if opsets.get("", 0) > NEWEST_OPSET:
        return f"operator set {opsets['']} is newer than {NEWEST_OPSET}; export an older one"
    nodes = []
    for node in _walk(model):
        nodes.append((node.domain, node.op_type))
        if len(nodes) > MOST_NODES:
            return f"the graph has more than {MOST_NODES:,} nodes"
    own = {(function.domain, function.name) for function in model.functions}
    unknown = Counter(key for key in nodes if key not in own and not _is_known(*key))
    if unknown:
        names = sorted((f"{domain}:{name}" if domain else name) for domain, name in unknown)
        return f"these operators are not supported: {', '.join(names[:20])}"
    if any(tensor.external_data for tensor in _tensors(model)):
        return "some tensors are stored outside of the file; save the model as one file"
    return None


def _find_in_torch(content: bytes) -> str | None:
    """Look into a file of `torch.save` without reading its pickle."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        return f"the file looks like one of torch.save, but it is damaged: {error}"
    if any(name.endswith("/data.pkl") for name in names):
        return None
    return "the file is a zip, but not one of torch.save; save a state_dict"


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


def _is_known(domain: str, name: str) -> bool:
    return domain in ("", "ai.onnx") and name in OPERATORS


def _walk(model: Any) -> Iterator[Any]:
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [one.g.node for one in node.attribute if one.HasField("g")]


def _tensors(model: Any) -> Iterator[Any]:
    yield from model.graph.initializer
    for node in _walk(model):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors, *attribute.g.initializer)


def main() -> None:
    """Check the file at the first argument."""
    confine(LIMITS, parent_pid=int(sys.argv[2]))
    sys.stdout.write(find_problem(Path(sys.argv[1]).read_bytes()) or "")


if __name__ == "__main__":
    main()
