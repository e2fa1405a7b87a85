"""Skips torch's second trace of a network whose operators ONNX has.

`torch.onnx.export` traces each network twice: to record its operators, and to replace those that
ONNX does not have by simpler ones. Most networks have only a few of these, such as batch
normalisation and conversions of types, and their replacements are known.
"""

import functools
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from worker.export.tracing.replacements import can_replace, replace_all
from worker.export.tracing.versions import is_tested


@functools.cache
def skip_second_trace() -> None:
    """Have torch trace a network once in this process if that gives the same graph.

    CPU time of an export on one core: 0.26 instead of 0.59 s for mnist-cnn, 0.40 instead of 0.89
    for cifar-fast, 1.11 instead of 1.78 for resnet18 (torch 2.13, AMD EPYC, November 2026).
    The second trace takes as long for text models, U-Nets and detectors.
    """
    if not is_tested():
        return
    from torch.onnx._internal.exporter import _fx_passes, _registration

    decompose = _fx_passes.decompose_with_registry

    def decompose_if_needed(
        exported_program: ExportedProgram, registry: _registration.ONNXRegistry
    ) -> ExportedProgram:
        if not _is_known(exported_program, registry):
            return decompose(exported_program, registry)
        replace_all(exported_program.graph_module)
        return exported_program

    _fx_passes.decompose_with_registry = decompose_if_needed


def _is_known(program: ExportedProgram, registry: Any) -> bool:
    """Return whether ONNX has each operator, or its replacement is known."""
    from torch.onnx._internal.exporter._decomp import get_onnx_implemented_overloads

    known = set(get_onnx_implemented_overloads(registry))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    has_parts = any(True for _ in program.graph_module.children())  # branches and loops
    return not has_parts and all(_is_final(node, known) or can_replace(node) for node in calls)


def _is_final(node: fx.Node, known: set[Any]) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.target in known and not (schema is not None and schema.is_mutable)
