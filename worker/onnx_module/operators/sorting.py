"""Largest elements, and distinct ones."""

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor


@operator("TopK")
def _topk_attribute(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    return _take(call, x, call.get("k"))


@operator("TopK", since=10, sizes=(1,))
def _topk(call: Call, x: Tensor, k: list[int]) -> tuple[Tensor, Tensor]:
    return _take(call, x, k[0])


def _take(call: Call, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    axis, is_largest = call.get("axis", -1), bool(call.get("largest", 1))
    # Of equal elements the first one comes first, which torch's topk does not promise.
    values, places = torch.sort(x, dim=axis, descending=is_largest, stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)


@operator("Unique", since=11)
def _unique(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    axis = call.get("axis")
    flat = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis
    values, inverse, counts = torch.unique(flat, return_inverse=True, return_counts=True, dim=dim)
    number = torch.arange(inverse.numel(), device=x.device)
    first = torch.full_like(counts, inverse.numel()).scatter_reduce(0, inverse, number, "amin")
    if call.get("sorted", 1):
        return values, first, inverse, counts
    order = first.argsort()
    return (
        values.index_select(dim, order),
        first[order],
        order.argsort()[inverse],
        counts[order],
    )
