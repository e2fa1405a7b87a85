"""Sequences and optional values, which are lists and None of Python."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor
Sequence = list[Any]


@operator("SequenceConstruct", since=11)
def _construct(_: Call, *inputs: Tensor) -> tuple[Sequence]:
    return (list(inputs),)


@operator("SequenceEmpty", since=11)
def _empty(_: Call) -> tuple[Sequence]:
    return ([],)


@operator("SequenceInsert", since=11)
def _insert(_: Call, sequence: Sequence, value: Any, place: Tensor | None = None) -> Any:
    position = len(sequence) if place is None else int(place.item())
    position = position + len(sequence) if position < 0 else position
    return ([*sequence[:position], value, *sequence[position:]],)


@operator("SequenceErase", since=11)
def _erase(_: Call, sequence: Sequence, place: Tensor | None = None) -> Any:
    position = (-1 if place is None else int(place.item())) % len(sequence)
    return ([*sequence[:position], *sequence[position + 1 :]],)


@operator("SequenceAt", since=11)
def _at(_: Call, sequence: Sequence, place: Tensor) -> Any:
    return (sequence[int(place.item())],)


@operator("SequenceLength", since=11)
def _length(call: Call, sequence: Sequence) -> Tensor:
    return torch.tensor(len(sequence), device=call.state.device)


@operator("ConcatFromSequence", since=11)
def _concat(call: Call, sequence: Sequence) -> Tensor:
    axis = call.get("axis")
    return torch.stack(sequence, axis) if call.get("new_axis", 0) else torch.cat(sequence, axis)


@operator("SplitToSequence", since=11)
def _split(call: Call, x: Tensor, parts: Tensor | None = None) -> tuple[Sequence]:
    axis = call.get("axis", 0)
    if parts is None:
        pieces = list(torch.split(x, 1, axis))
        return (pieces if call.get("keepdims", 1) else [piece.squeeze(axis) for piece in pieces],)
    sizes = parts.tolist()
    return (list(torch.split(x, sizes, axis)),)


@operator("Optional", since=15)
def _optional(_: Call, value: Any = None) -> tuple[Any]:
    return (value,)


@operator("OptionalGetElement", since=15)
def _get(_: Call, value: Any) -> tuple[Any]:
    if value is None:
        raise ValueError("the optional value is empty")
    return (value,)


@operator("OptionalHasElement", since=15)
def _has(call: Call, value: Any = None) -> Tensor:
    return torch.tensor(value is not None, device=call.state.device)
