"""Replaces operators that ONNX does not have as torch does, or by fewer ones.

A replacement keeps the name of a value that the network returns, because the program knows its
outputs by their names.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx

ATEN = torch.ops.aten


class Replacement(NamedTuple):
    """Whether a call of an operator can be replaced, and how."""

    fits: Callable[[fx.Node], bool]
    replace: Callable[[fx.Node], None]


def can_replace(node: fx.Node) -> bool:
    """Return whether the replacement of a call is known."""
    known = REPLACEMENTS.get(node.target)
    return known is not None and known.fits(node)


def replace_all(module: fx.GraphModule) -> None:
    """Replace each operator of a graph in which all can be."""
    for node in list(module.graph.nodes):
        if node.target in REPLACEMENTS:
            REPLACEMENTS[node.target].replace(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _fits_always(_: fx.Node) -> bool:
    return True


def _is_output(node: fx.Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _exchange(node: fx.Node, other: Any) -> None:
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def _remove(node: fx.Node) -> None:
    node.graph.erase_node(node)


def _is_plain_norm(node: fx.Node) -> bool:
    _, *parameters, is_training = node.args[:6]
    return not _is_output(node) and not is_training and None not in parameters


def _replace_norm(node: fx.Node) -> None:
    _, _, _, _, _, _, momentum, epsilon = node.args[:8]
    value = node.meta["val"]
    evaluated = ATEN._native_batch_norm_legit_no_training.default
    with node.graph.inserting_before(node):
        norm = node.graph.call_function(evaluated, (*node.args[:5], momentum, epsilon))
        first = node.graph.call_function(operator.getitem, (norm, 0))
    norm.meta = {**node.meta, "val": (value, value.new_empty(0), value.new_empty(0))}
    first.meta = dict(node.meta)
    _exchange(node, first)


def _changes_type(node: fx.Node) -> bool:
    source: Any = node.args[0]
    return bool(node.meta["val"].dtype != source.meta["val"].dtype)


def _is_plain_conversion(node: fx.Node) -> bool:
    return _changes_type(node) or not _is_output(node)


def _replace_conversion(node: fx.Node) -> None:
    """Convert the type only: ONNX has neither devices nor layouts of memory."""
    if not _changes_type(node):
        _exchange(node, node.args[0])
        return
    node.target = ATEN._to_copy.default
    node.args, node.kwargs = node.args[:1], {"dtype": node.meta["val"].dtype}


def _rename(target: Any) -> Callable[[fx.Node], None]:
    def rename(node: fx.Node) -> None:
        node.target = target

    return rename


def _find_memory(node: fx.Node) -> tuple[Any, Any]:
    """Return the part of memory that is written, and all of it."""
    part: Any = node.args[0]
    return part, part.args[0] if part.target is ATEN.slice.Tensor else part


def _fills_new_memory(node: fx.Node) -> bool:
    """Return whether the first use of new memory writes all of it, and the only one writes."""
    part, memory = _find_memory(node)
    source: Any = node.args[1]
    values = [each.meta["val"] for each in (part, memory, source)]
    # As text, because torch would record a comparison of symbols as a condition.
    kinds = {(str(value.shape), value.dtype) for value in values}
    others = [user for user in memory.users if user not in (part, node)]
    return (
        memory.target is ATEN.empty.memory_format
        and len(kinds) == 1
        and not node.users
        and (part is memory or list(part.users) == [node])
        and all(node < user and user.op != "output" for user in others)
        and not any(user.target in (ATEN.slice.Tensor, ATEN.copy_.default) for user in others)
    )


def _use_source(node: fx.Node) -> None:
    part, memory = _find_memory(node)
    memory.replace_all_uses_with(node.args[1])
    for each in dict.fromkeys((node, part, memory)):
        node.graph.erase_node(each)


def _is_plain_grid(node: fx.Node) -> bool:
    sizes = [size for value in node.meta["val"] for size in value.shape]
    return (
        node.kwargs.get("indexing") == "ij"
        and all(isinstance(size, int) for size in sizes)
        and not any(_is_output(item) for item in node.users)
    )


def _replace_grid(node: fx.Node) -> None:
    rows: Any = node.args[0]
    for item in list(node.users):
        place: Any = item.args[1]
        shape = [-1 if axis == place else 1 for axis in range(len(rows))]
        with node.graph.inserting_before(item):
            view = node.graph.call_function(ATEN.view.default, (rows[place], shape))
            sizes = list(item.meta["val"].shape)
            grid = node.graph.call_function(ATEN.expand.default, (view, sizes))
        view.meta = {**item.meta, "val": rows[place].meta["val"].view(shape)}
        grid.meta = dict(item.meta)
        _exchange(item, grid)
    node.graph.erase_node(node)


REPLACEMENTS: dict[Any, Replacement] = {
    ATEN.batch_norm.default: Replacement(_is_plain_norm, _replace_norm),
    ATEN.to.dtype: Replacement(_is_plain_conversion, _replace_conversion),
    ATEN.to.dtype_layout: Replacement(_is_plain_conversion, _replace_conversion),
    ATEN.to.device: Replacement(_is_plain_conversion, _replace_conversion),
    ATEN.__and__.Tensor: Replacement(_fits_always, _rename(ATEN.bitwise_and.Tensor)),
    ATEN.__or__.Tensor: Replacement(_fits_always, _rename(ATEN.bitwise_or.Tensor)),
    # Torch's exporter removes checks, too.
    ATEN._assert_scalar.default: Replacement(_fits_always, _remove),
    ATEN._assert_tensor_metadata.default: Replacement(_fits_always, _remove),
    ATEN.copy_.default: Replacement(_fills_new_memory, _use_source),
    ATEN.meshgrid.indexing: Replacement(_is_plain_grid, _replace_grid),
}
"""Replacements by the operator; each fits whatever another one has replaced before."""
