"""New weights for a graph whose own ones are not wanted."""

import torch
from torch import nn

from worker.onnx_module.module import OnnxBatchNorm, OnnxModule
from worker.onnx_module.weights import ELEMENTWISE, Use

SCALES = {"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"}
BIASES = {"Conv": {2}, "ConvTranspose": {2}, "GRU": {3}, "Gemm": {2}, "LSTM": {3, 7}, "RNN": {3}}
"""Inputs of each operator that are biases."""
RECURRENT = {"GRU", "LSTM", "RNN"}


def reset_weights(module: OnnxModule) -> None:
    """Draw all weights again, as torch does for new layers.

    Matrices and kernels are uniform within 1/sqrt(n) for n inputs of an output. Biases and what is
    added or subtracted are 0, scales and other factors 1, slopes of PRelu 0.25, running means 0 and
    variances 1.
    """
    values = module.weights_by_name()
    with torch.no_grad():
        for name, use in module.uses.items():
            value = values.get(name)
            if isinstance(value, nn.Parameter):
                _draw(use, value)
        for norm in module.norms.values():
            assert isinstance(norm, OnnxBatchNorm)
            norm.reset_parameters()


def _draw(use: Use, value: torch.Tensor) -> None:
    constant = _find_constant(use)
    if constant is None:
        reach = _count_inputs(use, value) ** -0.5
        value.uniform_(-reach, reach)
    else:
        value.fill_(constant)


def _find_constant(use: Use) -> float | None:
    """Return the number that all values of a weight begin with; None for a matrix or kernel."""
    op = use.node.op
    if op in ELEMENTWISE:
        return 1.0 if op in ("Mul", "Div") else 0.0
    if op in SCALES:
        return 1.0 if use.place == 1 else 0.0
    if op == "RMSNormalization":
        return 1.0
    if op == "PRelu":
        return 0.25
    return 0.0 if use.place in BIASES.get(op, ()) else None


def _count_inputs(use: Use, value: torch.Tensor) -> int:
    op = use.node.op
    if op in RECURRENT or value.ndim < 2:
        return value.shape[-1]
    is_column = (op == "MatMul" and use.place == 1) or (
        op == "Gemm" and not use.node.attributes.get("transB")
    )
    if op in ("MatMul", "Gemm"):
        return value.shape[-2 if is_column != use.is_transposed else -1]
    return value[0].numel()
