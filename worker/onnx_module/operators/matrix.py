"""Products of matrices."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator

Tensor = torch.Tensor


@operator("MatMul")
def _matmul(_: Call, a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


@operator("Gemm")
def _gemm(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    a = a.t() if call.get("transA", 0) else a
    is_usual = alpha == 1 and beta == 1 and call.get("transB", 0) and a.is_floating_point()
    if is_usual and c is not None and c.ndim == 1:
        return torch.nn.functional.linear(a, b, c)
    b = b.t() if call.get("transB", 0) else b
    product = _scale(torch.matmul(a, b), alpha)
    return product if c is None else product + _scale(c, beta)


@operator("Einsum", since=12)
def _einsum(call: Call, *inputs: Tensor) -> Tensor:
    return torch.einsum(call.get("equation").replace(" ", ""), *inputs)


@operator("Det", since=11)
def _det(_: Call, x: Tensor) -> Any:
    return torch.linalg.det(x)


@operator("Trilu", since=14, sizes=(1,))
def _trilu(call: Call, x: Tensor, k: list[int] | None = None) -> Tensor:
    cut = torch.triu if call.get("upper", 1) else torch.tril
    return cut(x, k[0] if k else 0)


def _scale(x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    return x * factor if x.is_floating_point() else (x * factor).to(x.dtype)
