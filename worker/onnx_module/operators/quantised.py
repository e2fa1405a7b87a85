"""Integers for real numbers. None of these operators has a gradient: such files run, not train."""

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.dtypes import dtype_of
from worker.onnx_module.operators.convolution import find_pads, pad_spatial
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator

Tensor = torch.Tensor
UINT8 = 2


@operator("QuantizeLinear", since=10)
def _quantize(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    dtype = dtype_of(call.get("output_dtype") or UINT8) if zero is None else zero.dtype
    scale = _align(call, scale, x)
    shift = 0 if zero is None else _align(call, zero, x).to(torch.float64)
    ratio = (x.to(torch.float32) / scale.to(torch.float32)).to(torch.float64)
    return _clamp(torch.round(ratio) + shift, dtype)


@operator("DequantizeLinear", since=10)
def _dequantize(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    whole = x.to(torch.int64)
    if zero is not None:
        whole = whole - _align(call, zero, x).to(torch.int64)
    number = call.get("output_dtype")
    dtype = dtype_of(number) if number else scale.dtype
    return (whole.to(scale.dtype) * _align(call, scale, x)).to(dtype)


@operator("MatMulInteger", since=10)
def _matmul_integer(
    _: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    left, right = _shifted(a, a_zero, column=True), _shifted(b, b_zero, column=False)
    return torch.matmul(left, right).to(torch.int32)


@operator("QLinearMatMul", since=10)
def _qlinear_matmul(
    _: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    left, right = _shifted(a, a_zero, column=True), _shifted(b, b_zero, column=False)
    factor = a_scale.to(torch.float64) * b_scale.to(torch.float64) / y_scale.to(torch.float64)
    return _clamp(torch.round(torch.matmul(left, right) * factor) + y_zero, y_zero.dtype)


@operator("QLinearConv", since=10)
def _qlinear_conv(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    if w.ndim != 4:
        raise OnnxRefused("QLinearConv is only supported for images of two axes")
    shape = [-1, 1, 1, 1] if w_zero.numel() > 1 else [1] * w_zero.ndim
    whole = torch.nn.functional.conv2d(
        pad_spatial(x.to(torch.float64) - x_zero, find_pads(call, x.shape[2:], w.shape[2:])),
        w.to(torch.float64) - w_zero.reshape(shape),
        None if bias is None else bias.to(torch.float64),
        stride=call.get("strides") or 1,
        dilation=call.get("dilations") or 1,
        groups=call.get("group", 1),
    )
    factor = x_scale.to(torch.float64) * w_scale.to(torch.float64) / y_scale.to(torch.float64)
    factor = factor.reshape(1, -1, 1, 1) if factor.numel() > 1 else factor
    return _clamp(torch.round(whole * factor) + y_zero, y_zero.dtype)


def _shifted(x: Tensor, zero: Tensor | None, *, column: bool) -> Tensor:
    """Return integers less their zero point in float64, which is exact for products of bytes."""
    if zero is None:
        return x.to(torch.float64)
    if column and zero.ndim == 1 and zero.numel() > 1:
        zero = zero.unsqueeze(-1)
    return x.to(torch.float64) - zero.to(torch.float64)


def _align(call: Call, values: Tensor, x: Tensor) -> Tensor:
    """Return scales or zero points in a shape that broadcasts over a tensor."""
    block = call.get("block_size", 0)
    axis = call.get("axis", 1)
    if block:
        axis %= x.ndim
        return values.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if values.ndim != 1 or values.numel() == 1:
        return values.reshape(()) if values.numel() == 1 else values
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)


def _clamp(x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        raise OnnxRefused(f"quantising to {dtype} is not supported")
    limits = torch.iinfo(dtype)
    return x.clamp(limits.min, limits.max).to(dtype)
