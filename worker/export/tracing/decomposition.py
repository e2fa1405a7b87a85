"""Skips torch's second trace of a network whose operators ONNX has.

`torch.onnx.export` traces each network twice: to record its operators, and to replace those that
ONNX does not have by simpler ones. Most networks have only a few of these: batch normalisation,
conversions of types, `&` and `|`. Their replacements are known.
"""

import functools
import operator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

NORM = torch.ops.aten.batch_norm.default
EVALUATED = torch.ops.aten._native_batch_norm_legit_no_training.default
"""What torch replaces NORM by in evaluation mode."""
CONVERSIONS = {
    torch.ops.aten.to.dtype,
    torch.ops.aten.to.dtype_layout,
    torch.ops.aten.to.device,
}
RENAMED: dict[Any, Any] = {
    torch.ops.aten.__and__.Tensor: torch.ops.aten.bitwise_and.Tensor,
    torch.ops.aten.__or__.Tensor: torch.ops.aten.bitwise_or.Tensor,
}
CHECKS = {
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
}
"""Operators without a result, which torch's exporter removes later."""


@functools.cache
def skip_second_trace() -> None:
    """Have torch trace a network once in this process if that gives the same graph.

    CPU time of an export on one core: 0.26 instead of 0.59 s for mnist-cnn, 0.40 instead of 0.89
    for cifar-fast, 1.11 instead of 1.78 for resnet18 (torch 2.13, AMD EPYC, November 2026).
    The second trace takes as long for text models, U-Nets and detectors.
    """
    from torch.onnx._internal.exporter import _fx_passes, _registration

    decompose = _fx_passes.decompose_with_registry

    def decompose_if_needed(
        exported_program: ExportedProgram, registry: _registration.ONNXRegistry
    ) -> ExportedProgram:
        if not _is_known(exported_program, registry):
            return decompose(exported_program, registry)
        replace_known(exported_program.graph_module)
        return exported_program

    _fx_passes.decompose_with_registry = decompose_if_needed


def _is_known(program: ExportedProgram, registry: Any) -> bool:
    """Return whether ONNX has each operator, or its replacement is known."""
    from torch.onnx._internal.exporter._decomp import get_onnx_implemented_overloads

    known = set(get_onnx_implemented_overloads(registry))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    has_parts = any(True for _ in program.graph_module.children())  # branches and loops
    return not has_parts and all(
        _is_final(node, known) or _is_plain_norm(node) or _is_plain_conversion(node)
        for node in calls
    )


def _is_final(node: fx.Node, known: set[Any]) -> bool:
    schema = getattr(node.target, "_schema", None)
    is_known = node.target in known or node.target in CHECKS or node.target in RENAMED
    return is_known and not (schema is not None and schema.is_mutable)


def _is_plain_norm(node: fx.Node) -> bool:
    if node.target is not NORM or any(user.op == "output" for user in node.users):
        return False
    _, *parameters, is_training = node.args[:6]
    return not is_training and None not in parameters


def _is_plain_conversion(node: fx.Node) -> bool:
    """Return whether a conversion can be replaced; one that changes nothing is removed."""
    is_needed = any(user.op == "output" for user in node.users)
    return node.target in CONVERSIONS and (_changes_type(node) or not is_needed)


def _changes_type(node: fx.Node) -> bool:
    source: Any = node.args[0]
    return bool(node.meta["val"].dtype != source.meta["val"].dtype)


def replace_known(module: fx.GraphModule) -> None:
    """Replace operators as torch does, and remove checks."""
    _replace_norms(module)
    for node in list(module.graph.nodes):
        if node.target in RENAMED:
            node.target = RENAMED[node.target]
        elif node.target in CHECKS:
            module.graph.erase_node(node)
        elif node.target in CONVERSIONS and _changes_type(node):
            # ONNX has neither devices nor layouts of memory.
            node.target = torch.ops.aten._to_copy.default
            node.args, node.kwargs = node.args[:1], {"dtype": node.meta["val"].dtype}
        elif node.target in CONVERSIONS:
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()  # what only the checks used
    module.recompile()


def _replace_norms(module: fx.GraphModule) -> None:
    for node in module.graph.find_nodes(op="call_function", target=NORM):
        _, _, _, _, _, _, momentum, epsilon = node.args[:8]
        value = node.meta["val"]
        with module.graph.inserting_before(node):
            norm = module.graph.call_function(EVALUATED, (*node.args[:5], momentum, epsilon))
            first = module.graph.call_function(operator.getitem, (norm, 0))
        norm.meta = {**node.meta, "val": (value, value.new_empty(0), value.new_empty(0))}
        first.meta = dict(node.meta)
        node.replace_all_uses_with(first)
        module.graph.erase_node(node)
