"""Resizing by interpolation, one axis after another, and sampling at given places.

An axis is resized by a matrix (new size, old size) whose rows hold the weights of each new element,
as ONNX defines them for its coordinate transformations. The usual cases use torch's own functions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import count_elements

Tensor = torch.Tensor


NEAREST = {"asymmetric": ("floor",), "half_pixel": ("round_prefer_floor", "round_prefer_ceil")}
"""Coordinate transformations and roundings that repeat each pixel."""


@dataclass(frozen=True)
class _Axis:
    """How an axis is resized: its old and new size, the scale, and the part that is read."""

    old: int
    new: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@operator("Upsample", since=9, sizes=(1,))
def _upsample(call: Call, x: Tensor, scales: list[float]) -> Tensor:
    axes = [_Axis(old, int(old * s), s) for old, s in zip(x.shape, scales, strict=True)]
    return _resize_axes(call, x, axes, transform="asymmetric", rounding="floor")


@operator("Resize", since=10, sizes=(1,))
def _resize_scales(call: Call, x: Tensor, scales: list[float]) -> Tensor:
    axes = [_Axis(old, int(old * s), s) for old, s in zip(x.shape, scales, strict=True)]
    return _resize_axes(call, x, axes, transform="asymmetric", rounding="floor")


@operator("Resize", since=11, sizes=(1, 2, 3))
def _resize(
    call: Call,
    x: Tensor,
    roi: list[float] | None = None,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
) -> Tensor:
    axes = _plan(call, list(x.shape), roi or None, scales or None, sizes or None)
    transform = call.get("coordinate_transformation_mode", "half_pixel")
    rounding = call.get("nearest_mode", "round_prefer_floor")
    return _resize_axes(call, x, axes, transform=transform, rounding=rounding)


def _plan(
    call: Call,
    shape: list[int],
    roi: list[float] | None,
    scales: list[float] | None,
    sizes: list[int] | None,
) -> list[_Axis]:
    rank = len(shape)
    which = [axis % rank for axis in call.get("axes") or range(rank)]
    plan = [_Axis(old, old, 1.0) for old in shape]
    if sizes is not None:
        sizes, kept = _keep_ratio(call, [shape[axis] for axis in which], sizes)
    is_cropped = call.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    for place, axis in enumerate(which):
        old = shape[axis]
        start, end = 0.0, 1.0
        if roi is not None and is_cropped:
            start, end = roi[place], roi[place + len(which)]
        if sizes is not None:
            scale = kept or sizes[place] / old
            plan[axis] = _Axis(old, sizes[place], scale, start, end)
        elif scales is not None:
            new = int((end - start) * old * scales[place])
            plan[axis] = _Axis(old, new, scales[place], start, end)
    return plan


def _keep_ratio(call: Call, old: list[int], sizes: list[int]) -> tuple[list[int], float | None]:
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, None
    choose = min if policy == "not_larger" else max
    scale = choose(new / size for new, size in zip(sizes, old, strict=True))
    return [int(scale * size + 0.5) for size in old], scale


def _resize_axes(
    call: Call, x: Tensor, axes: list[_Axis], *, transform: str, rounding: str
) -> Tensor:
    count_elements([axis.new for axis in axes])
    mode = call.get("mode", "nearest")
    if _is_plain_nearest(mode, axes, transform, rounding):
        return functional.interpolate(x, [axis.new for axis in axes[2:]], mode="nearest")
    for number, axis in enumerate(axes):
        if axis.new == axis.old and axis.scale == 1 and (axis.start, axis.end) == (0, 1):
            continue
        places = _original_places(axis, transform)
        weights = _weights(call, mode, places, axis, rounding).to(x)
        x = torch.tensordot(x, weights, dims=([number], [1])).movedim(-1, number)
        if transform == "tf_crop_and_resize":
            outside = ((places < 0) | (places > axis.old - 1)).to(x.device)
            shape = [1] * x.ndim
            shape[number] = -1
            x = torch.where(outside.reshape(shape), call.get("extrapolation_value", 0.0), x)
    return x


def _is_plain_nearest(mode: str, axes: list[_Axis], transform: str, rounding: str) -> bool:
    """Return whether each pixel is repeated a whole number of times, as torch does."""
    return (
        mode == "nearest"
        and len(axes) == 4
        and transform in NEAREST
        and rounding in NEAREST[transform]
        and all(axis.new % axis.old == 0 and axis.scale == axis.new // axis.old for axis in axes)
        and all(axis.scale == 1 for axis in axes[:2])
    )


def _original_places(axis: _Axis, transform: str) -> Tensor:
    """Return where the new elements are in the old axis (new size,)."""
    new = torch.arange(axis.new, dtype=torch.float64)
    length = axis.scale * axis.old
    match transform:
        case "half_pixel":
            return (new + 0.5) / axis.scale - 0.5
        case "half_pixel_symmetric":
            adjusted = axis.new / length
            centre = axis.old / 2
            return centre * (1 - adjusted) + (new + 0.5) / axis.scale - 0.5
        case "pytorch_half_pixel":
            return (new + 0.5) / axis.scale - 0.5 if length > 1 else new * 0
        case "align_corners":
            return new * ((axis.old - 1) / (length - 1)) if length > 1 else new * 0
        case "asymmetric":
            return new / axis.scale
        case "tf_half_pixel_for_nn":
            return (new + 0.5) / axis.scale
        case "tf_crop_and_resize":
            reach = axis.old - 1
            if axis.new == 1:
                return new * 0 + 0.5 * (axis.start + axis.end) * reach
            width = (axis.end - axis.start) * reach / (axis.new - 1)
            return axis.start * reach + new * width
    raise OnnxRefused(f"coordinate transformation {transform!r} is not supported")


def _weights(call: Call, mode: str, places: Tensor, axis: _Axis, rounding: str) -> Tensor:
    """Return the matrix (new size, old size) of an axis."""
    if mode == "nearest":
        chosen = _round(places, rounding).clamp(0, axis.old - 1).to(torch.int64)
        return functional.one_hot(chosen, axis.old).to(torch.float64)
    shrink = min(axis.scale, 1.0) if call.get("antialias", 0) else 1.0
    if mode == "linear":
        radius, kernel = 1.0, _triangle
    elif mode == "cubic":
        coefficient = call.get("cubic_coeff_a", -0.75)
        radius, kernel = 2.0, lambda distance: _cubic(distance, coefficient)
    else:
        raise OnnxRefused(f"resizing mode {mode!r} is not supported")
    return _spread(places, axis.old, radius / shrink, lambda d: kernel(d * shrink), call)


def _spread(
    places: Tensor, old: int, radius: float, kernel: Callable[[Tensor], Tensor], call: Call
) -> Tensor:
    reach = int(-(-radius // 1)) + 1
    base = places.floor().to(torch.int64)
    near = base.unsqueeze(1) + torch.arange(-reach, reach + 1)
    weight = kernel((near - places.unsqueeze(1)).abs())
    is_inside = (near >= 0) & (near < old)
    excludes = bool(call.get("exclude_outside", 0))
    if excludes:
        weight = weight * is_inside
    if excludes or call.get("antialias", 0):
        weight = weight / weight.sum(1, keepdim=True)
    matrix = torch.zeros(len(places), old, dtype=torch.float64)
    return matrix.scatter_add(1, near.clamp(0, old - 1), weight)


def _round(places: Tensor, rounding: str) -> Tensor:
    match rounding:
        case "round_prefer_floor":
            return (places - 0.5).ceil()
        case "round_prefer_ceil":
            return (places + 0.5).floor()
        case "floor":
            return places.floor()
        case "ceil":
            return places.ceil()
    raise OnnxRefused(f"rounding {rounding!r} is not supported")


def _triangle(distance: Tensor) -> Tensor:
    return (1 - distance).clamp(min=0)


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Weights of cubic convolution. Source: Keys, 1981, equation 4."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    inner = torch.where(distance <= 1, near, far)
    return torch.where(distance < 2, inner, torch.zeros_like(inner))


@operator("GridSample", since=16)
def _grid_sample(call: Call, x: Tensor, grid: Tensor) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(call.get("mode", "linear"))
    return functional.grid_sample(
        x,
        grid,
        mode=mode or call.get("mode"),
        padding_mode=call.get("padding_mode", "zeros"),
        align_corners=bool(call.get("align_corners", 0)),
    )
