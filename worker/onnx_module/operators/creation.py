"""Constants, ranges, random numbers, and changes of type."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.dtypes import dtype_of
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes, count_elements

Tensor = torch.Tensor
INT64 = 7


@operator("Constant")
def _constant(call: Call) -> Tensor | Sizes:
    found = dict(call.node.attributes)
    if "value" in found:
        value = found["value"]
        return value if isinstance(value, Sizes) else value.to(call.state.device)
    if "value_int" in found:
        return Sizes((found["value_int"],), is_scalar=True)
    if "value_ints" in found:
        return Sizes(tuple(found["value_ints"]))
    if "value_float" in found:
        return torch.tensor(found["value_float"], device=call.state.device)
    if "value_floats" in found:
        return torch.tensor(found["value_floats"], device=call.state.device)
    raise OnnxRefused(f"a constant of kind {', '.join(found)} is not supported")


@operator("ConstantOfShape", since=9, sizes=(0,))
def _constant_of_shape(call: Call, shape: list[int]) -> Any:
    count_elements(shape)
    value = call.get("value")
    if value is None:
        return torch.zeros(shape, device=call.state.device)
    if isinstance(value, Sizes):
        value = value.to_tensor(call.state.device)
    return value.to(call.state.device).reshape(-1)[0].repeat(shape)


@operator("EyeLike", since=9)
def _eye_like(call: Call, x: Tensor) -> Tensor:
    number = call.get("dtype")
    dtype = x.dtype if number is None else dtype_of(number)
    return (
        torch.ones_like(x, dtype=torch.int8).triu(call.get("k", 0)).tril(call.get("k", 0)).to(dtype)
    )


@operator("Range", since=11)
def _range(_: Call, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = start.item(), limit.item(), delta.item()
    number = max(-int((last - first) // -step), 0)
    count_elements([number])
    places = torch.arange(number, device=start.device)
    return (places * step + first).to(start.dtype)


def _cast_on_host(call: Call, x: Sizes) -> Sizes:
    return x if call.get("to") == INT64 else NotImplemented


@operator("Cast", since=6, host=_cast_on_host)
def _cast(call: Call, x: Tensor) -> Tensor:
    return x.to(dtype_of(call.get("to")))


@operator("CastLike", since=15)
def _cast_like(_: Call, x: Tensor, other: Tensor) -> Tensor:
    return x.to(other.dtype)


@operator("BitCast", since=26)
def _bit_cast(call: Call, x: Tensor) -> Tensor:
    dtype = dtype_of(call.get("to"))
    if dtype.itemsize != x.dtype.itemsize:
        raise OnnxRefused("a bit cast between types of different sizes is not supported")
    return x.view(dtype)


def _same(_: Call, x: Sizes) -> Sizes:
    return x


@operator("Identity", host=_same)
def _identity(_: Call, x: Tensor) -> Tensor:
    return x


@operator("OneHot", since=9, sizes=(1,))
def _one_hot(call: Call, indices: Tensor, depth: list[int], values: Tensor) -> Tensor:
    number, axis = int(depth[0]), call.get("axis", -1)
    count_elements([*indices.shape, number])
    places = indices.to(torch.int64)
    is_valid = (places >= -number) & (places < number)
    hot = torch.arange(number, device=indices.device) == (places % number).unsqueeze(-1)
    hot = hot & is_valid.unsqueeze(-1)
    result = torch.where(hot, values[1], values[0])
    return result.movedim(-1, axis)


@operator("RandomNormal", "RandomUniform", is_random=True)
def _random(call: Call) -> Tensor:
    shape = call.get("shape")
    count_elements(shape)
    dtype = dtype_of(call.get("dtype", 1))
    return _draw(call, torch.empty(shape, dtype=dtype, device=call.state.device))


@operator("RandomNormalLike", "RandomUniformLike", is_random=True)
def _random_like(call: Call, x: Tensor) -> Tensor:
    number = call.get("dtype")
    dtype = x.dtype if number is None else dtype_of(number)
    return _draw(call, torch.empty_like(x, dtype=dtype))


@operator("Bernoulli", since=15, is_random=True)
def _bernoulli(call: Call, x: Tensor) -> Tensor:
    number = call.get("dtype")
    return torch.bernoulli(x).to(x.dtype if number is None else dtype_of(number))


def _draw(call: Call, empty: Tensor) -> Tensor:
    if "Normal" in call.node.op:
        return empty.normal_(call.get("mean", 0.0), call.get("scale", 1.0))
    return empty.uniform_(call.get("low", 0.0), call.get("high", 1.0))
