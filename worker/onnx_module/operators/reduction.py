"""Reductions over axes, and the places of extremes."""

from collections.abc import Callable
from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes

Tensor = torch.Tensor


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return x.sum(axes, keepdim=keep, dtype=x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keep)
    number = x.numel() // max(_sum(x, axes, keep).numel(), 1)
    return torch.div(_sum(x, axes, keep), number, rounding_mode="floor")


def _max(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _extreme(x, axes, keep, torch.amax, is_max=True)


def _min(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _extreme(x, axes, keep, torch.amin, is_max=False)


def _extreme(
    x: Tensor, axes: list[int], keep: bool, compute: Callable[..., Tensor], *, is_max: bool
) -> Tensor:
    if x.numel():
        return compute(x, axes, keepdim=keep)
    if x.dtype == torch.bool:
        fill: Any = not is_max
    elif x.is_floating_point():
        fill = float("-inf") if is_max else float("inf")
    else:
        fill = torch.iinfo(x.dtype).min if is_max else torch.iinfo(x.dtype).max
    return torch.full_like(_sum(x, axes, keep), fill)


def _norm1(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _sum(x.abs(), axes, keep)


def _norm2(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _sum(x * x, axes, keep).sqrt().to(x.dtype)


def _log_sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _sum(x, axes, keep).log()


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.logsumexp(x, axes, keepdim=keep)


def _sum_square(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _sum(x * x, axes, keep)


_REDUCTIONS: dict[str, tuple[Callable[[Tensor, list[int], bool], Tensor], int]] = {
    "ReduceL1": (_norm1, 18),
    "ReduceL2": (_norm2, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
    "ReduceMax": (_max, 18),
    "ReduceMean": (_mean, 18),
    "ReduceMin": (_min, 18),
    "ReduceProd": (_product, 18),
    "ReduceSum": (_sum, 13),
    "ReduceSumSquare": (_sum_square, 18),
}
"""Each reduction, and the operator set since which its axes are an input."""


def _register(name: str, compute: Callable[[Tensor, list[int], bool], Tensor], since: int) -> None:
    def reduce(call: Call, x: Tensor, axes: list[int] | None) -> Tensor:
        if not axes and call.get("noop_with_empty_axes", 0):
            return compute(x.unsqueeze(-1), [-1], False)
        keep = bool(call.get("keepdims", 1))
        # Without axes all are meant; an empty list means that in torch too, but not for a scalar.
        every = list(range(x.ndim))
        return compute(x, axes or every, keep) if x.ndim else compute(x.reshape(1), [0], False)

    @operator(name)
    def run_attribute(call: Call, x: Tensor) -> Tensor:
        return reduce(call, x, call.get("axes"))

    host = _product_of_sizes if name == "ReduceProd" else None

    @operator(name, since=since, sizes=(1,), host=host)
    def run(call: Call, x: Tensor, axes: list[int] | None = None) -> Tensor:
        return reduce(call, x, axes)


def _product_of_sizes(call: Call, x: Sizes, axes: Sizes | None = None) -> Any:
    if x.is_scalar or (axes is None and call.get("noop_with_empty_axes", 0)):
        return NotImplemented
    product = 1
    for value in x.values:
        product *= value
    return Sizes((product,), is_scalar=not call.get("keepdims", 1))


for _name, (_compute, _since) in _REDUCTIONS.items():
    _register(_name, _compute, _since)


@operator("ArgMax")
def _argmax(call: Call, x: Tensor) -> Any:
    return _place(call, x, torch.argmax)


@operator("ArgMin")
def _argmin(call: Call, x: Tensor) -> Any:
    return _place(call, x, torch.argmin)


def _place(call: Call, x: Tensor, find: Callable[..., Any]) -> Any:
    axis, keep = call.get("axis", 0), bool(call.get("keepdims", 1))
    if not call.get("select_last_index", 0):
        return find(x, axis, keepdim=keep)
    return x.shape[axis] - 1 - find(x.flip(axis), axis, keepdim=keep)
