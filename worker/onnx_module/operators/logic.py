"""Comparisons, boolean and bitwise operators, and choices between values."""

from collections.abc import Callable

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "And": torch.logical_and,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
}


def _register(name: str, compute: Callable[[Tensor, Tensor], Tensor]) -> None:
    @operator(name, since=7)
    def run(_: Call, a: Tensor, b: Tensor) -> Tensor:
        return compute(a, b)


for _name, _compute in _BINARY.items():
    _register(_name, _compute)


@operator("Not")
def _not(_: Call, x: Tensor) -> Tensor:
    return torch.logical_not(x)


@operator("BitwiseNot", since=18)
def _bitwise_not(_: Call, x: Tensor) -> Tensor:
    return torch.bitwise_not(x)


@operator("Where", since=9)
def _where(_: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(condition, x, y)


@operator("IsNaN", since=9)
def _is_nan(_: Call, x: Tensor) -> Tensor:
    return torch.isnan(x)


@operator("IsInf", since=10)
def _is_inf(call: Call, x: Tensor) -> Tensor:
    positive, negative = call.get("detect_positive", 1), call.get("detect_negative", 1)
    found = torch.zeros_like(x, dtype=torch.bool)
    if positive:
        found = found | torch.isposinf(x)
    return found | torch.isneginf(x) if negative else found
