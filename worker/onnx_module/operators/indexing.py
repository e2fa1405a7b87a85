"""Reading and writing at given places."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes

Tensor = torch.Tensor
REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""Names of ONNX's reductions in torch."""


def _gather_sizes(_: Call, x: Sizes, indices: Sizes) -> Any:
    if x.is_scalar:
        return NotImplemented
    return Sizes(tuple(x.values[place] for place in indices.values), indices.is_scalar)


@operator("Gather", host=_gather_sizes)
def _gather(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    axis = call.get("axis", 0) % x.ndim
    places = _positive(indices, x.shape[axis])
    taken = x.index_select(axis, places.reshape(-1))
    return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@operator("GatherElements", since=11)
def _gather_elements(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    axis = call.get("axis", 0) % x.ndim
    return torch.gather(x, axis, _positive(indices, x.shape[axis]))


@operator("GatherND", since=11)
def _gather_nd(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    batch = call.get("batch_dims", 0)
    depth = indices.shape[-1]
    places: list[Any] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = indices.shape[axis]
        places.append(torch.arange(indices.shape[axis], device=x.device).reshape(shape))
    places += [indices[..., axis].to(torch.int64) for axis in range(depth)]
    return x[tuple(places)]


@operator("Scatter", since=9)
@operator("ScatterElements", since=11)
def _scatter_elements(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = call.get("axis", 0) % x.ndim
    places = _positive(indices, x.shape[axis])
    reduction = call.get("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction], include_self=True)


@operator("ScatterND", since=11)
def _scatter_nd(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth = indices.shape[-1]
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
    for axis in range(depth):
        flat = flat * x.shape[axis] + _positive(indices[..., axis], x.shape[axis])
    rest = x.shape[depth:]
    rows = x.reshape(-1, *rest) if depth else x.reshape(1, *rest)
    places, new = flat.reshape(-1), updates.reshape(-1, *rest)
    reduction = call.get("reduction", "none")
    if reduction == "none":
        result = rows.index_copy(0, places, new)
    elif reduction == "add":
        result = rows.index_add(0, places, new)
    else:
        result = rows.index_reduce(0, places, new, REDUCTIONS[reduction], include_self=True)
    return result.reshape(x.shape)


def _slice_sizes(
    _: Call,
    x: Sizes,
    starts: Sizes,
    ends: Sizes,
    axes: Sizes | None = None,  # noqa: ARG001 - a vector has one axis
    steps: Sizes | None = None,
) -> Any:
    if x.is_scalar or len(starts.values) != 1:
        return NotImplemented
    step = 1 if steps is None else steps.values[0]
    bounds = _clamp(starts.values[0], ends.values[0], step)
    return Sizes(x.values[bounds])


@operator("Slice")
def _slice_attributes(call: Call, x: Tensor) -> Tensor:
    return _cut(x, call.get("starts"), call.get("ends"), call.get("axes"), None)


@operator("Slice", since=10, sizes=(1, 2, 3, 4), host=_slice_sizes)
def _slice(
    _: Call,
    x: Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> Tensor:
    return _cut(x, starts, ends, axes, steps)


def _cut(
    x: Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
) -> Tensor:
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step > 0:
            parts[axis] = slice(start, end, step)
            continue
        kept = range(x.shape[axis])[_clamp(start, end, step)]
        x = x.index_select(axis, torch.tensor(list(kept), dtype=torch.int64, device=x.device))
    return x[tuple(parts)]


def _clamp(start: int, end: int, step: int) -> slice:
    """Return a slice as Python means it: for a negative step a very small end is the beginning."""
    return slice(start, None if step < 0 and end < -(2**31) + 1 else end, step)


@operator("Compress", since=9)
def _compress(call: Call, x: Tensor, condition: Tensor) -> Tensor:
    axis = call.get("axis")
    places = condition.nonzero().reshape(-1)
    if axis is None:
        return x.reshape(-1).index_select(0, places)
    return x.index_select(axis, places)


@operator("NonZero", since=9)
def _nonzero(_: Call, x: Tensor) -> Tensor:
    return x.nonzero().t()


@operator("ReverseSequence", since=10)
def _reverse_sequence(call: Call, x: Tensor, lengths: Tensor) -> Tensor:
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    moved = x.movedim((batch, time), (0, 1))
    steps = torch.arange(moved.shape[1], device=x.device)
    ends = lengths.reshape(-1, 1)
    places = torch.where(steps < ends, ends - 1 - steps, steps)
    rows = torch.arange(moved.shape[0], device=x.device).reshape(-1, 1)
    return moved[rows, places].movedim((0, 1), (batch, time))


@operator("TensorScatter", since=24)
def _tensor_scatter(
    call: Call, past: Tensor, update: Tensor, write: Tensor | None = None
) -> Tensor:
    axis = call.get("axis", -2) % past.ndim
    moved, new = past.movedim(axis, 1).clone(), update.movedim(axis, 1)
    start = torch.zeros(past.shape[0], dtype=torch.int64) if write is None else write
    places = start.reshape(-1, 1).to(past.device) + torch.arange(
        update.shape[axis], device=past.device
    )
    if call.get("mode", "linear") == "circular":
        places = places % past.shape[axis]
    rows = torch.arange(past.shape[0], device=past.device).reshape(-1, 1)
    moved[rows, places] = new
    return moved.movedim(1, axis)


def _positive(indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the beginning.

    Raises:
        OnnxRefused: The indices are not integers.
    """
    if indices.is_floating_point():
        raise OnnxRefused("indices must be integers")
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)
