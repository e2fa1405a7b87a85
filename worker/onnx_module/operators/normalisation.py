"""Normalisations. Batch norm trains only as a separate module (`worker.onnx_module.layers`)."""

from typing import Any

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor


@operator("BatchNormalization")
def _batch_norm(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    epsilon = call.get("epsilon", 1e-5)
    if not call.get("training_mode", 0):
        return functional.batch_norm(
            x,
            mean.to(x.dtype),
            variance.to(x.dtype),
            scale.to(x.dtype),
            bias.to(x.dtype),
            eps=epsilon,
        )
    axes = [axis for axis in range(x.ndim) if axis != 1]
    own_mean, own_variance = x.mean(axes), x.var(axes, unbiased=False)
    momentum = call.get("momentum", 0.9)
    result = functional.batch_norm(x, own_mean, own_variance, scale, bias, eps=epsilon)
    return (
        result,
        mean * momentum + own_mean * (1 - momentum),
        variance * momentum + own_variance * (1 - momentum),
    )


@operator("InstanceNormalization")
def _instance_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Any:
    axes = list(range(2, x.ndim))
    shape = [1, -1, *([1] * len(axes))]
    centred = x - x.mean(axes, keepdim=True)
    spread = (centred * centred).mean(axes, keepdim=True) + call.get("epsilon", 1e-5)
    return centred * spread.rsqrt() * scale.reshape(shape) + bias.reshape(shape)


@operator("LayerNormalization", since=17)
def _layer_norm(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None
) -> Tensor | tuple[Tensor, ...]:
    axis, epsilon = call.get("axis", -1) % x.ndim, call.get("epsilon", 1e-5)
    shape = list(x.shape[axis:])
    if not (call.is_asked(1) or call.is_asked(2)) and list(scale.shape) == shape:
        return functional.layer_norm(x, shape, scale, bias, epsilon)
    axes = list(range(axis, x.ndim))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = ((centred * centred).mean(axes, keepdim=True) + epsilon).rsqrt()
    result = centred * inverse * scale
    return (result if bias is None else result + bias), mean, inverse


@operator("LpNormalization")
def _lp_norm(call: Call, x: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, call.get("p", 2), dim=call.get("axis", -1), keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / torch.where(norm == 0, 1, norm))


@operator("LRN")
def _local_response(call: Call, x: Tensor) -> Any:
    size = call.get("size")
    before = (size - 1) // 2
    squares = (x * x).movedim(1, -1)
    windows = functional.pad(squares, [before, size - 1 - before]).unfold(-1, size, 1)
    total = windows.sum(-1).movedim(-1, 1)
    scale = call.get("bias", 1.0) + call.get("alpha", 1e-4) / size * total
    return x / scale.pow(call.get("beta", 0.75))
