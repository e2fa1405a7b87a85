"""Pooling over windows, and over everything.

Windows are taken as views (`unfold`), so that every combination of strides, dilations, uneven
padding and rounding is computed in the same way; the usual ones use torch's own functions.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.operators.convolution import find_pads, pad_spatial
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import count_elements

Tensor = torch.Tensor


@operator("GlobalAveragePool")
def _global_average(_: Call, x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def _global_max(_: Call, x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool", since=2)
def _global_lp(call: Call, x: Tensor) -> Any:
    return torch.linalg.vector_norm(x, call.get("p", 2), dim=list(range(2, x.ndim)), keepdim=True)


@operator("MaxPool")
def _max_pool(call: Call, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    pairs = _asked_pads(call, x)
    kernel = call.get("kernel_shape")
    is_usual = len(kernel) == 2 and _is_plain(call, pairs, kernel) and not call.is_asked(1)
    if is_usual and x.is_floating_point():
        return functional.max_pool2d(
            x,
            kernel,
            call.get("strides") or [1, 1],
            padding=[before for before, _ in pairs],
            ceil_mode=bool(call.get("ceil_mode", 0)),
        )
    return _max_of_windows(call, x, _pads(call, x))


def _max_of_windows(
    call: Call, x: Tensor, pairs: list[tuple[int, int]]
) -> Tensor | tuple[Tensor, Tensor]:
    smallest = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
    windows = _windows(call, pad_spatial(x, pairs, smallest))
    values, chosen = windows.max(-1)
    if not call.is_asked(1):
        return values
    spatial = x.shape[2:]
    order = 1 if call.get("storage_order", 0) == 0 else -1
    numbers = torch.arange(math.prod(spatial), device=x.device)
    if order == 1:
        numbers = numbers.reshape(tuple(spatial))
    else:
        axes = list(reversed(range(len(spatial))))
        numbers = numbers.reshape(tuple(reversed(spatial))).permute(axes)
    places = _windows(call, pad_spatial(numbers[None, None], pairs, -1))
    shape = values.shape
    inside = places.expand(*shape, places.shape[-1]).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    planes = torch.arange(shape[0] * shape[1], device=x.device).reshape(
        *shape[:2], *([1] * len(spatial))
    )
    return values, inside + planes * math.prod(spatial)


@operator("AveragePool")
def _average_pool(call: Call, x: Tensor) -> Tensor:
    asked = _asked_pads(call, x)
    kernel = call.get("kernel_shape")
    counts_padding = bool(call.get("count_include_pad", 0))
    if len(kernel) == 2 and _is_plain(call, asked, kernel):
        return functional.avg_pool2d(
            x,
            kernel,
            call.get("strides") or [1, 1],
            padding=[before for before, _ in asked],
            ceil_mode=bool(call.get("ceil_mode", 0)),
            count_include_pad=counts_padding,
        )
    pairs = _pads(call, x)
    ones = x.new_ones(1, 1, *x.shape[2:])
    # Padding of the file counts where it is wanted; what rounding up adds never does.
    beyond = [(b - a, d - c) for (b, d), (a, c) in zip(pairs, asked, strict=True)]
    counted = pad_spatial(pad_spatial(ones, asked, 1.0 if counts_padding else 0.0), beyond, 0.0)
    total = _windows(call, pad_spatial(x, pairs)).sum(-1)
    return total / _windows(call, counted).sum(-1)


@operator("LpPool", since=2)
def _lp_pool(call: Call, x: Tensor) -> Tensor:
    p = call.get("p", 2)
    windows = _windows(call, pad_spatial(x, _pads(call, x)))
    return windows.abs().pow(p).sum(-1).pow(1 / p)


@operator("MaxUnpool", since=9, sizes=(2,))
def _max_unpool(call: Call, x: Tensor, places: Tensor, shape: list[int] | None = None) -> Tensor:
    kernel = call.get("kernel_shape")
    strides = call.get("strides") or [1] * len(kernel)
    pads = call.get("pads") or [0] * (2 * len(kernel))
    spatial = [
        (size - 1) * stride + k - before - after
        for size, stride, k, before, after in zip(
            x.shape[2:], strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    inner = [*x.shape[:2], *spatial]
    flat = x.new_zeros(math.prod(inner)).scatter(0, places.reshape(-1), x.reshape(-1))
    result = flat.reshape(inner)
    if shape is None:
        return result
    more = [(0, wanted - size) for wanted, size in zip(shape[2:], spatial, strict=True)]
    return pad_spatial(result, more)


def _asked_pads(call: Call, x: Tensor) -> list[tuple[int, int]]:
    return find_pads(call, x.shape[2:], call.get("kernel_shape"))


def _pads(call: Call, x: Tensor) -> list[tuple[int, int]]:
    """Return the padding, with what a last window needs that sizes are rounded up for."""
    pairs = _asked_pads(call, x)
    if not call.get("ceil_mode", 0):
        return pairs
    kernel = call.get("kernel_shape")
    strides = call.get("strides") or [1] * len(kernel)
    dilations = call.get("dilations") or [1] * len(kernel)
    result = []
    for size, k, stride, dilation, (before, after) in zip(
        x.shape[2:], kernel, strides, dilations, pairs, strict=True
    ):
        reach = (k - 1) * dilation + 1
        steps = -(-(size + before + after - reach) // stride)
        # A window that starts in the padding after the image is left out.
        if steps * stride >= size + before:
            steps -= 1
        result.append((before, max(steps * stride + reach - size - before, after)))
    return result


def _is_plain(call: Call, pairs: Sequence[tuple[int, int]], kernel: Sequence[int]) -> bool:
    """Return whether torch's own pooling of two axes computes this."""
    fits = (b == a and 2 * b <= k for (b, a), k in zip(pairs, kernel, strict=True))
    return set(call.get("dilations") or [1]) == {1} and all(fits)


def _windows(call: Call, x: Tensor) -> Tensor:
    """(B, C, ...) -> (B, C, ..., elements of a window)."""
    kernel = call.get("kernel_shape")
    strides = call.get("strides") or [1] * len(kernel)
    dilations = call.get("dilations") or [1] * len(kernel)
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    counts = [
        (size - reach) // stride + 1
        for size, reach, stride in zip(x.shape[2:], reaches, strides, strict=True)
    ]
    count_elements([x.shape[1], *(max(count, 0) for count in counts), *kernel])
    for axis, (k, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True), 2):
        x = x.unfold(axis, (k - 1) * dilation + 1, stride)[..., ::dilation]
    return x.flatten(-len(kernel))
