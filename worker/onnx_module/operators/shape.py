"""Shapes, and operators that move elements without changing them."""

import math
from typing import Any

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes, count_elements

Tensor = torch.Tensor


@operator("Shape")
def _shape(call: Call, x: Tensor) -> Sizes:
    return Sizes(tuple(x.shape[call.get("start", 0) : call.get("end")]))


@operator("Size")
def _size(_: Call, x: Tensor) -> Sizes:
    return Sizes((math.prod(x.shape),), is_scalar=True)


@operator("Reshape", since=5, sizes=(1,))
def _reshape(call: Call, x: Tensor, shape: list[int]) -> Tensor:
    if not call.get("allowzero", 0):
        shape = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    return x.reshape(shape)


@operator("Flatten")
def _flatten(call: Call, x: Tensor) -> Tensor:
    axis = call.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 0:
        return x.reshape(1, -1)
    if x.ndim and axis == 1:
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _axes_input(axes: Sizes | None) -> list[int]:
    return [] if axes is None else list(axes.values)


def _unsqueeze_sizes(call: Call, x: Sizes, axes: Sizes | None = None) -> Any:
    wanted = call.get("axes") or _axes_input(axes)
    return Sizes(x.values) if x.is_scalar and wanted in ([0], [-1]) else NotImplemented


def _squeeze_sizes(call: Call, x: Sizes, axes: Sizes | None = None) -> Any:
    wanted = call.get("axes") or _axes_input(axes) or [0]
    if x.is_scalar or len(x.values) != 1 or wanted not in ([0], [-1]):
        return NotImplemented
    return Sizes(x.values, is_scalar=True)


@operator("Unsqueeze", host=_unsqueeze_sizes)
def _unsqueeze_attribute(call: Call, x: Tensor) -> Tensor:
    return _insert(x, call.get("axes"))


@operator("Unsqueeze", since=13, sizes=(1,), host=_unsqueeze_sizes)
def _unsqueeze(_: Call, x: Tensor, axes: list[int]) -> Tensor:
    return _insert(x, axes)


def _insert(x: Tensor, axes: list[int]) -> Tensor:
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Squeeze", host=_squeeze_sizes)
def _squeeze_attribute(call: Call, x: Tensor) -> Tensor:
    return _remove(x, call.get("axes"))


@operator("Squeeze", since=13, sizes=(1,), host=_squeeze_sizes)
def _squeeze(_: Call, x: Tensor, axes: list[int] | None = None) -> Tensor:
    return _remove(x, axes)


def _remove(x: Tensor, axes: list[int] | None) -> Tensor:
    if axes is None:
        return x.squeeze()
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {axes} are not all of size 1")
    return x.squeeze(tuple(axes))


@operator("Transpose")
def _transpose(call: Call, x: Tensor) -> Tensor:
    return x.permute(call.get("perm") or list(reversed(range(x.ndim))))


@operator("Expand", since=8, sizes=(1,))
def _expand(_: Call, x: Tensor, shape: list[int]) -> Tensor:
    whole = _broadcast(tuple(x.shape), tuple(shape))
    count_elements(whole)
    return x.expand(whole)


@operator("Tile", since=6, sizes=(1,))
def _tile(_: Call, x: Tensor, repeats: list[int]) -> Tensor:
    count_elements([size * number for size, number in zip(x.shape, repeats, strict=True)])
    return x.repeat(repeats)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> list[int]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    # A size of 0 stays 0; sizes that do not agree fail in `expand`.
    return [y if x == 1 else x for x, y in pairs]


def _concat_sizes(_: Call, *inputs: Sizes) -> Any:
    if any(one.is_scalar for one in inputs):
        return NotImplemented
    return Sizes(tuple(value for one in inputs for value in one.values))


@operator("Concat", since=4, host=_concat_sizes)
def _concat(call: Call, *inputs: Tensor) -> Tensor:
    return torch.cat(inputs, call.get("axis"))


@operator("Split", since=2)
def _split_attribute(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    return _split_parts(call, x, call.get("split"))


@operator("Split", since=13, sizes=(1,))
def _split(call: Call, x: Tensor, parts: list[int] | None = None) -> tuple[Tensor, ...]:
    return _split_parts(call, x, parts)


def _split_parts(call: Call, x: Tensor, parts: list[int] | None) -> tuple[Tensor, ...]:
    axis = call.get("axis", 0)
    if parts is None:
        number = call.get("num_outputs") or call.num_outputs
        size = -(-x.shape[axis] // number)
        parts = [size] * (number - 1)
        parts.append(x.shape[axis] - sum(parts))
    return torch.split(x, parts, axis)


@operator("Pad", since=2)
def _pad_attribute(call: Call, x: Tensor) -> Tensor:
    return _pad_all(call, x, call.get("pads"), call.get("value", 0.0))


@operator("Pad", since=11, sizes=(1, 2, 3))
def _pad(
    call: Call,
    x: Tensor,
    pads: list[int],
    value: list[float] | None = None,
    axes: list[int] | None = None,
) -> Tensor:
    fill = value[0] if value else 0
    return _pad_all(call, x, _spread(pads, axes, x.ndim), fill)


def _spread(pads: list[int], axes: list[int] | None, rank: int) -> list[int]:
    """Return pads of all axes from those of some."""
    if axes is None:
        return pads
    whole = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        whole[axis % rank] = pads[place]
        whole[axis % rank + rank] = pads[place + len(axes)]
    return whole


def _pad_all(call: Call, x: Tensor, pads: list[int], fill: float) -> Tensor:
    mode = call.get("mode", "constant")
    half = len(pads) // 2
    pairs = list(zip(pads[:half], pads[half:], strict=True))
    count_elements([size + sum(pair) for size, pair in zip(x.shape, pairs, strict=True)])
    if mode == "constant":
        flat = [number for pair in reversed(pairs) for number in pair]
        return functional.pad(x, flat, value=fill)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = x.index_select(axis, _places(mode, x.shape[axis], before, after, x.device))
    return x


def _places(mode: str, size: int, before: int, after: int, device: torch.device) -> Tensor:
    """Return which elements of an axis a padded axis has."""
    places = torch.arange(-before, size + after, device=device)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return places % size
    if mode == "reflect":
        period = max(2 * (size - 1), 1)
        places = places % period
        return torch.where(places < size, places, period - places)
    raise OnnxRefused(f"padding mode {mode!r} is not supported")


@operator("DepthToSpace")
def _depth_to_space(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call.get("blocksize")
    if call.get("mode", "DCR") == "DCR":
        parts = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth")
def _space_to_depth(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call.get("blocksize")
    if call.get("mode", "DCR") != "DCR":
        raise OnnxRefused("SpaceToDepth is only supported in mode DCR")
    parts = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)
