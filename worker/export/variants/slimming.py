"""Removes what a file does not need, with onnxslim: repeated and constant nodes, notes of shapes.

The result is kept only if it is smaller and passes the gate of the file that it replaces.
"""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from worker.export.exportable import Converted, Exportable


@dataclass(frozen=True)
class Slimming:
    """What the clean-up of a file did, for the manifest.

    Attributes:
        kept: Whether the file is the cleaned one.
        size_bytes: Size of the file before and after.
        num_nodes: Nodes of its graph before and after.
        reason: Why it was not kept; empty if it was.
    """

    kept: bool
    size_bytes: tuple[int, int] = (0, 0)
    num_nodes: tuple[int, int] = (0, 0)
    reason: str = ""

    def describe(self) -> str:
        """Return a sentence for the report, with a space behind it."""
        if not self.kept:
            return f"The file was not cleaned up: {self.reason}. "
        (before, after), (many, few) = self.size_bytes, self.num_nodes
        return (
            f"onnxslim cleaned the file up: {before:,} to {after:,} bytes, {many} to {few} nodes. "
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


_UNCHANGED = (
    "files that return boxes or masks are not slimmed; the check needs their internal values"
)


def slim(path: Path, exportable: Exportable | Converted) -> Slimming:
    """Clean a file up in place; it stays as it is if that fails or saves nothing.

    Args:
        path: The file.
        exportable: The model that it was written from.
    """
    if exportable.answers is not None:  # the gate reads a value inside the graph by its name
        return Slimming(kept=False, reason=_UNCHANGED)
    before = onnx.load(path)
    try:
        after = _slim(before)
    except Exception as error:  # noqa: BLE001 - the file stays as it was
        first = str(error).strip().partition("\n")[0][:300]
        return Slimming(kept=False, reason=f"onnxslim failed: {type(error).__name__}: {first}")
    sizes = path.stat().st_size, after.ByteSize()
    nodes = len(before.graph.node), len(after.graph.node)
    if sizes[1] >= sizes[0]:
        reason = "the cleaned file is not smaller"
        return Slimming(kept=False, size_bytes=sizes, num_nodes=nodes, reason=reason)
    onnx.save_model(after, path)
    return Slimming(kept=True, size_bytes=sizes, num_nodes=nodes)


def _slim(model: Any) -> Any:
    """Return the cleaned model, checked, with the metadata of the given one."""
    import onnxslim  # imports sympy, which takes a second

    logging.getLogger("onnxslim").setLevel(logging.ERROR)
    copy = type(model)()
    copy.CopyFrom(model)
    slimmed = onnxslim.slim(copy)
    del slimmed.graph.value_info[:]  # shapes that can be inferred
    del slimmed.metadata_props[:]
    slimmed.metadata_props.extend(model.metadata_props)
    slimmed.producer_name, slimmed.producer_version = model.producer_name, model.producer_version
    onnx.checker.check_model(slimmed, full_check=True)
    return slimmed
