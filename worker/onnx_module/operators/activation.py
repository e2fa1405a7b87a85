"""Activation functions, softmax, and dropout."""

from typing import Any

import torch
from torch.nn import functional

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor


@operator("Relu")
def _relu(_: Call, x: Tensor) -> Tensor:
    return torch.relu(x)


@operator("Sigmoid")
def _sigmoid(_: Call, x: Tensor) -> Tensor:
    return torch.sigmoid(x)


@operator("Tanh")
def _tanh(_: Call, x: Tensor) -> Tensor:
    return torch.tanh(x)


@operator("Softplus")
def _softplus(_: Call, x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


@operator("Softsign")
def _softsign(_: Call, x: Tensor) -> Tensor:
    return functional.softsign(x)


@operator("LeakyRelu")
def _leaky_relu(call: Call, x: Tensor) -> Tensor:
    return functional.leaky_relu(x, call.get("alpha", 0.01))


@operator("PRelu")
def _prelu_by_channel(call: Call, x: Tensor, slope: Tensor) -> Any:
    return _prelu(call, x, slope.reshape(-1, *([1] * (x.ndim - 2))))


@operator("PRelu", since=7)
def _prelu(_: Call, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, slope * x, x)


@operator("Elu")
def _elu(call: Call, x: Tensor) -> Tensor:
    return functional.elu(x, call.get("alpha", 1.0))


@operator("Selu")
def _selu(call: Call, x: Tensor) -> Any:
    alpha = call.get("alpha", 1.6732631921768188)
    return call.get("gamma", 1.0507010221481323) * functional.elu(x, alpha)


@operator("Gelu", since=20)
def _gelu(call: Call, x: Tensor) -> Tensor:
    return functional.gelu(x, approximate=call.get("approximate", "none"))


@operator("HardSigmoid")
def _hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    return torch.clamp(call.get("alpha", 0.2) * x + call.get("beta", 0.5), 0, 1)


@operator("Softmax")
def _softmax_flat(call: Call, x: Tensor) -> Tensor:
    return torch.softmax(_flat(call, x), 1).reshape(x.shape)


@operator("Softmax", since=13)
def _softmax(call: Call, x: Tensor) -> Tensor:
    return torch.softmax(x, call.get("axis", -1))


@operator("LogSoftmax")
def _log_softmax_flat(call: Call, x: Tensor) -> Tensor:
    return torch.log_softmax(_flat(call, x), 1).reshape(x.shape)


@operator("LogSoftmax", since=13)
def _log_softmax(call: Call, x: Tensor) -> Tensor:
    return torch.log_softmax(x, call.get("axis", -1))


@operator("Hardmax")
def _hardmax_flat(call: Call, x: Tensor) -> Tensor:
    return _largest(_flat(call, x), 1).reshape(x.shape)


@operator("Hardmax", since=13)
def _hardmax(call: Call, x: Tensor) -> Tensor:
    return _largest(x, call.get("axis", -1))


@operator("Dropout", is_random=True)
def _dropout_attribute(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    # Before operator set 7 `is_test` says whether it drops; it never does in a graph that is run.
    return _drop(call, x, call.get("ratio", 0.5), is_training=call.state.is_training)


@operator("Dropout", since=12, sizes=(1, 2), is_random=True)
def _dropout(
    call: Call, x: Tensor, ratio: list[float] | None = None, training: list[bool] | None = None
) -> tuple[Tensor, Tensor]:
    is_training = call.state.is_training or bool(training and training[0])
    return _drop(call, x, ratio[0] if ratio else 0.5, is_training=is_training)


def _drop(call: Call, x: Tensor, ratio: float, *, is_training: bool) -> tuple[Tensor, Tensor]:
    if not call.is_asked(1):
        return functional.dropout(x, ratio, training=is_training), x
    mask = torch.ones_like(x, dtype=torch.bool)
    if not is_training or not ratio:
        return x, mask
    mask = torch.rand_like(x) >= ratio
    return x * mask / (1 - ratio), mask


def _flat(call: Call, x: Tensor) -> Tensor:
    """Return a matrix whose rows are normalised, as before operator set 13."""
    axis = call.get("axis", 1) % max(x.ndim, 1)
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, -1)


def _largest(x: Tensor, axis: int) -> Tensor:
    places = x.argmax(axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, places, 1)
