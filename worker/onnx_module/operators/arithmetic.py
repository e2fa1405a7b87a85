"""Elementwise arithmetic."""

import functools
import operator as python
from collections.abc import Callable
from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes

Tensor = torch.Tensor

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Log": torch.log,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
}

Values = tuple[Any, ...]


def _on_host(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the form of a binary operator for sizes, which broadcasts scalars."""

    def run(_: Call, a: Sizes, b: Sizes) -> Any:
        long = max(len(a.values), len(b.values))
        if {len(a.values), len(b.values)} - {1, long}:
            return NotImplemented
        left, right = (v.values * long if len(v.values) == 1 else v.values for v in (a, b))
        values = tuple(compute(x, y) for x, y in zip(left, right, strict=True))
        return Sizes(values, is_scalar=a.is_scalar and b.is_scalar)

    return run


def _truncate(a: Any, b: Any) -> Any:
    # Sizes are hardly ever negative, and symbolic ones only divide in this way.
    if type(a) is int and type(b) is int and (a < 0) != (b < 0):
        return -(-a // b)
    return a // b


def _register_unary(name: str, compute: Callable[[Tensor], Tensor]) -> None:
    @operator(name)
    def run(_: Call, x: Tensor) -> Tensor:
        return compute(x)


for _name, _compute in _UNARY.items():
    _register_unary(_name, _compute)


@operator("Add", since=7, host=_on_host(python.add))
def _add(_: Call, a: Tensor, b: Tensor) -> Tensor:
    return a + b


@operator("Sub", since=7, host=_on_host(python.sub))
def _sub(_: Call, a: Tensor, b: Tensor) -> Tensor:
    return a - b


@operator("Mul", since=7, host=_on_host(python.mul))
def _mul(_: Call, a: Tensor, b: Tensor) -> Tensor:
    return a * b


@operator("Div", since=7, host=_on_host(_truncate))
def _div(_: Call, a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


@operator("Mod", since=10)
def _mod(call: Call, a: Tensor, b: Tensor) -> Tensor:
    if not call.get("fmod", 0):
        return torch.remainder(a, b)
    return torch.fmod(a, b)


def _align(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """Return the second operand as before operator set 7: at `axis` of the first one."""
    axis = call.get("axis")
    if axis is None or not call.get("broadcast", 0):
        return b
    return b.reshape(*b.shape, *([1] * (a.ndim - axis % a.ndim - b.ndim)))


def _register_old(name: str, compute: Callable[[Call, Tensor, Tensor], Tensor]) -> None:
    @operator(name)
    def run(call: Call, a: Tensor, b: Tensor) -> Tensor:
        return compute(call, a, _align(call, a, b))


for _name, _old in {"Add": _add, "Div": _div, "Mul": _mul, "Sub": _sub}.items():
    _register_old(_name, _old)


@operator("Pow", since=7)
def _pow(_: Call, base: Tensor, exponent: Tensor) -> Tensor:
    return torch.pow(base, exponent).to(base.dtype)


_register_old("Pow", _pow)


def _fold(name: str, compute: Callable[[Tensor, Tensor], Tensor], **options: Any) -> None:
    @operator(name, **options)
    def run(_: Call, *inputs: Tensor) -> Tensor:
        return functools.reduce(compute, inputs)


_fold("Sum", torch.add)
_fold("Max", torch.maximum, host=_on_host(max))
_fold("Min", torch.minimum, host=_on_host(min))


@operator("Mean")
def _mean(_: Call, *inputs: Tensor) -> Tensor:
    return functools.reduce(torch.add, inputs) / len(inputs)


@operator("Clip", since=1)
def _clip_attributes(call: Call, x: Tensor) -> Tensor:
    return torch.clamp(x, call.get("min"), call.get("max")) if call.node.attributes else x


@operator("Clip", since=11)
def _clip(_: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    # The upper bound wins where it is below the lower one.
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@operator("CumSum", since=11, sizes=(1,))
def _cumsum(call: Call, x: Tensor, axis: list[int]) -> Tensor:
    return _cumulate(call, x, axis[0], torch.cumsum, start=0)


@operator("CumProd", since=26, sizes=(1,))
def _cumprod(call: Call, x: Tensor, axis: list[int]) -> Tensor:
    return _cumulate(call, x, axis[0], torch.cumprod, start=1)


def _cumulate(
    call: Call, x: Tensor, axis: int, compute: Callable[..., Tensor], *, start: int
) -> Tensor:
    is_reverse = call.get("reverse", 0)
    ordered = x.flip(axis) if is_reverse else x
    result = compute(ordered, axis, dtype=x.dtype)
    if call.get("exclusive", 0):
        first = torch.full_like(result.narrow(axis, 0, 1), start)
        result = torch.cat([first, result.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return result.flip(axis) if is_reverse else result


@operator("BitShift", since=11)
def _bit_shift(call: Call, x: Tensor, by: Tensor) -> Tensor:
    if call.get("direction") == "LEFT":
        return torch.bitwise_left_shift(x, by)
    return torch.bitwise_right_shift(x, by)
