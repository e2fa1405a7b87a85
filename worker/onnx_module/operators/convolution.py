"""Convolutions, and what they have in common with pooling: padding that follows from the sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import count_elements

Tensor = torch.Tensor
Kinds = dict[int, Callable[..., Any]]
CONVOLUTIONS: Kinds = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED: Kinds = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


def find_pads(call: Call, spatial: Sequence[int], kernel: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis.

    Args:
        call: Run of a convolution or pooling.
        spatial: Sizes of the input's spatial axes.
        kernel: Sizes of the kernel.
    """
    rank = len(spatial)
    auto = call.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = call.get("pads") or [0] * (2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * rank
    strides, dilations = _spread(call, "strides", rank), _spread(call, "dilations", rank)
    pairs = []
    for size, k, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        small = total // 2
        pairs.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return pairs


def pad_spatial(x: Tensor, pairs: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pad the last axes of a tensor.

    Raises:
        ValueError: A sample would become larger than a node may make.
    """
    if not any(before or after for before, after in pairs):
        return x
    spatial = zip(x.shape[2:], pairs, strict=True)
    count_elements([x.shape[1], *(size + sum(pair) for size, pair in spatial)])
    return functional.pad(x, [number for pair in reversed(pairs) for number in pair], value=value)


@operator("Conv")
def _conv(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    rank = weight.ndim - 2
    pairs = find_pads(call, x.shape[2:], weight.shape[2:])
    is_even = all(before == after for before, after in pairs)
    return _kind(CONVOLUTIONS, rank)(
        x if is_even else pad_spatial(x, pairs),
        weight,
        bias,
        stride=_spread(call, "strides", rank),
        padding=[before for before, _ in pairs] if is_even else [0] * rank,
        dilation=_spread(call, "dilations", rank),
        groups=call.get("group", 1),
    )


@operator("ConvTranspose")
def _conv_transpose(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    rank = weight.ndim - 2
    strides, dilations = _spread(call, "strides", rank), _spread(call, "dilations", rank)
    extra = call.get("output_padding") or [0] * rank
    sizes = zip(strides, x.shape[2:], strict=True)
    count_elements([weight.shape[1], *(stride * size for stride, size in sizes)])
    whole = _kind(TRANSPOSED, rank)(
        x, weight, bias, stride=strides, groups=call.get("group", 1), dilation=dilations
    )
    reach = [
        stride * (size - 1) + (k - 1) * dilation + 1 + more
        for stride, size, k, dilation, more in zip(
            strides, x.shape[2:], weight.shape[2:], dilations, extra, strict=True
        )
    ]
    pairs = _transposed_pads(call, x.shape[2:], strides, reach)
    for axis, ((before, after), size) in enumerate(zip(pairs, reach, strict=True), start=2):
        whole = _fit(whole, axis, before, size - before - after, bias)
    return whole


def _transposed_pads(
    call: Call, spatial: Sequence[int], strides: list[int], reach: list[int]
) -> list[tuple[int, int]]:
    rank, auto = len(reach), call.get("auto_pad", "NOTSET")
    wanted = call.get("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(spatial, strides, strict=True)]
    if wanted is None:
        pads = call.get("pads") or [0] * (2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    totals = [size - want for size, want in zip(reach, wanted[-rank:], strict=True)]
    halves = [(total // 2, total - total // 2) for total in totals]
    return [pair[::-1] for pair in halves] if auto != "SAME_UPPER" else halves


def _fit(x: Tensor, axis: int, start: int, length: int, bias: Tensor | None) -> Tensor:
    """Return a part of an axis; beyond the input it is the bias alone."""
    missing = start + length - x.shape[axis]
    if missing > 0 or start < 0:
        shape = list(x.shape)
        shape[axis] = max(missing, 0)
        fill = x.new_zeros(shape)
        if bias is not None:
            fill = fill + bias.reshape(-1, *([1] * (x.ndim - 2)))
        shape[axis] = max(-start, 0)
        front = x.new_zeros(shape)
        x, start = torch.cat([front, x, fill], axis), max(start, 0)
    return x.narrow(axis, start, length)


@operator("ConvInteger", since=10)
def _conv_integer(
    call: Call,
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
) -> Any:
    shift = 0 if w_zero is None else _by_channel(w_zero.to(torch.float64), weight.ndim, 0)
    moved = x.to(torch.float64) - (0 if x_zero is None else x_zero.to(torch.float64))
    # Sums of products of bytes are exact in float64.
    return _conv(call, moved, weight.to(torch.float64) - shift).to(torch.int32)


@operator("Col2Im", since=18, sizes=(1, 2))
def _col2im(call: Call, x: Tensor, image: list[int], block: list[int]) -> Any:
    if len(image) != 2:
        raise OnnxRefused("Col2Im is only supported for images of two axes")
    pads = call.get("pads") or [0] * 4
    if pads[:2] != pads[2:]:
        raise OnnxRefused("Col2Im is only supported with equal padding on both sides")
    fold: Callable[..., Any] = functional.fold
    strides, dilations = _spread(call, "strides", 2), _spread(call, "dilations", 2)
    return fold(x, image, block, dilation=dilations, padding=pads[:2], stride=strides)


def _by_channel(x: Tensor, rank: int, axis: int) -> Tensor:
    return x if x.ndim == 0 else x.reshape([-1 if place == axis else 1 for place in range(rank)])


def _spread(call: Call, name: str, rank: int) -> list[int]:
    return list(call.get(name) or [1] * rank)


def _kind(kinds: Kinds, rank: int) -> Callable[..., Any]:
    if rank not in kinds:
        raise OnnxRefused(f"convolutions over {rank} axes are not supported, only over 1 to 3")
    return kinds[rank]
