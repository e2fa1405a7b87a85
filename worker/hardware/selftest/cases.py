"""The operations of the self-test: the inputs of each, and what it computes from them.

A case's `compute` runs twice on the same numbers: on the device in the tested type, and on the CPU
in float64. Backward passes receive the gradient of their output as an input, so no random numbers
are drawn on a device.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.nn import functional

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea
from worker.hardware.selftest.shapes import (
    ATTENTIONS,
    CONVOLUTIONS,
    GEMMS,
    LINEARS,
    MANY_ROWS,
    NORMALIZATIONS,
    AttentionShape,
    ConvolutionShape,
    GemmShape,
    NormalizationShape,
)

Results = dict[SelfTestArea, Sequence[torch.Tensor]]
ONE_BY_ONE_OPERATIONS = 1
FEW_OPERATIONS = 8
"""Consecutive roundings within a norm: first its statistics, then the normalised values."""
ATTENTION_OPERATIONS = 16
"""Two products with a softmax between them, and back through all three."""
WINOGRAD_OPERATIONS = 64
"""Convolutions by Winograd's transforms have larger rounding errors than direct ones, which grow
with the tiles; this allows for a factor of 8.

Source: B. Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution for
Deep Neural Networks, ACM Trans. Math. Softw. 46(4), 2020, for the effect; the factor is a margin.
"""


@dataclass(frozen=True)
class Case:
    """One operation on one shape.

    Attributes:
        sizes: Size of each input, drawn from a normal distribution.
        parameters: Sizes of inputs that always stay in float32, as autocast keeps the weights of
            norms.
        reduction_lengths: Length of the longest sum in each area that it tests.
        chosen_by: Kind of library that can be selected for it.
        precisions: Types in which it is tested.
    """

    shape: str
    sizes: Sequence[tuple[int, ...]]
    compute: Callable[[Sequence[torch.Tensor]], Results]
    reduction_lengths: dict[SelfTestArea, int]
    depth: int = ONE_BY_ONE_OPERATIONS
    parameters: Sequence[tuple[int, ...]] = field(default_factory=tuple)
    chosen_by: Literal["blas", "attention"] | None = None
    precisions: frozenset[Precision] = frozenset({"fp32", "fp16", "bf16"})


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Yield all cases except the training run; the quick ones are a subset."""
    yield from (gemm_case(s) for s in GEMMS if s.is_quick or not is_quick)
    yield from () if is_quick else (many_rows_case(MANY_ROWS),)
    yield from (linear_case(s) for s in LINEARS if s.is_quick or not is_quick)
    yield from (convolution_case(s) for s in CONVOLUTIONS if s.is_quick or not is_quick)
    yield from (attention_case(s) for s in ATTENTIONS if s.is_quick or not is_quick)
    yield from (normalization_case(s) for s in NORMALIZATIONS if s.is_quick or not is_quick)


def gemm_case(shape: GemmShape) -> Case:
    """Build a matrix product whose factors are passed as they are stored in memory."""
    area: SelfTestArea = "gemm_tall_skinny" if shape.is_tall_skinny else "gemm"
    left = (shape.k, shape.m) if shape.layout == "tn" else (shape.m, shape.k)
    right = (shape.n, shape.k) if shape.layout == "nt" else (shape.k, shape.n)

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        a, b = inputs
        a = a.t() if shape.layout == "tn" else a
        b = b.t() if shape.layout == "nt" else b
        return {area: [a @ b]}

    return Case(str(shape), (left, right), compute, {area: shape.k}, chosen_by="blas")


def many_rows_case(shape: GemmShape) -> Case:
    """Build a product of very many rows, without and with a bias, which have separate kernels."""

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        a, b, bias = inputs
        return {"gemm_many_rows": [a @ b, torch.addmm(bias, a, b)]}

    sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.n,))
    return Case(str(shape), sizes, compute, {"gemm_many_rows": shape.k}, depth=2, chosen_by="blas")


def linear_case(shape: GemmShape) -> Case:
    """Build a linear layer with bias, forward and all gradients; torch has its own path for it."""

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        x, weight, bias, grad = inputs
        leaves = [t.requires_grad_() for t in (x, weight, bias)]
        out = functional.linear(*leaves)
        grads = torch.autograd.grad(out, leaves, grad)
        return {"linear": [out, *grads]}

    sizes = ((shape.m, shape.k), (shape.n, shape.k), (shape.n,), (shape.m, shape.n))
    longest = max(shape.m, shape.k, shape.n)
    return Case(str(shape), sizes, compute, {"linear": longest}, depth=4, chosen_by="blas")


def convolution_case(shape: ConvolutionShape) -> Case:
    """Build a convolution with its gradients by image and by weight."""
    layout = torch.channels_last if shape.is_channels_last else torch.contiguous_format
    taps = shape.kernel**2

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        x, weight, grad = (t.contiguous(memory_format=layout) for t in inputs)
        leaves = [x.requires_grad_(), weight.requires_grad_()]
        out = functional.conv2d(
            x, weight, stride=shape.stride, padding=shape.kernel // 2, groups=shape.groups
        )
        by_input, by_weight = torch.autograd.grad(out, leaves, grad)
        return {
            "convolution_forward": [out],
            "convolution_backward_input": [by_input],
            "convolution_backward_weight": [by_weight],
        }

    return Case(
        str(shape),
        (
            (shape.batch, shape.channels, shape.side, shape.side),
            (shape.filters, shape.channels // shape.groups, shape.kernel, shape.kernel),
            (shape.batch, shape.filters, shape.out_side, shape.out_side),
        ),
        compute,
        {
            "convolution_forward": shape.channels // shape.groups * taps,
            "convolution_backward_input": shape.filters // shape.groups * taps,
            "convolution_backward_weight": shape.batch * shape.out_side**2,
        },
        depth=WINOGRAD_OPERATIONS,
    )


def attention_case(shape: AttentionShape) -> Case:
    """Build scaled dot-product attention with its gradients."""
    size = (shape.batch, shape.heads, shape.length, shape.width)
    others = (shape.batch, shape.heads, shape.key_length, shape.width)

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        *leaves, grad = inputs
        grad = _even_out(grad, shape) if shape.is_causal else grad
        query, key, value = leaves = [t.requires_grad_() for t in leaves]
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=shape.is_causal)
        grads = torch.autograd.grad(out, leaves, grad)
        return {"attention_forward": [out], "attention_backward": grads}

    def overflow(inputs: Sequence[torch.Tensor]) -> Results:
        query, key, value = inputs
        query, key = query * shape.magnitude, key * shape.magnitude
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=shape.is_causal)
        return {"attention_forward": [torch.isfinite(out).to(out.dtype)]}

    if shape.magnitude != 1:
        return Case(
            str(shape), (size, others, others), overflow, {"attention_forward": 1},
            chosen_by="attention",
        )  # fmt: skip
    longest = max(shape.length, shape.key_length, shape.width)
    lengths: dict[SelfTestArea, int] = {
        "attention_forward": longest,
        "attention_backward": longest,
    }
    return Case(
        str(shape),
        (size, others, others, size),
        compute,
        lengths,
        depth=ATTENTION_OPERATIONS,
        chosen_by="attention",
    )


def _even_out(grad: torch.Tensor, shape: AttentionShape) -> torch.Tensor:
    """Scale the gradient of causal attention, so that all rows of the results have one size.

    A row that sees n keys has results of 1 / sqrt(n). Otherwise the right rounding errors of the
    first rows would be large in comparison with the root mean square of all.
    """
    seen = torch.arange(1, shape.length + 1, device=grad.device).clamp(max=shape.key_length)
    return grad * (seen / shape.key_length).sqrt()[:, None].to(grad.dtype)


def normalization_case(shape: NormalizationShape) -> Case:
    """Build layer or batch norm in training mode, with its gradients."""
    is_layer = shape.kind == "layer_norm"
    width = shape.size[-1] if is_layer else shape.size[1]
    length = width if is_layer else shape.size[0] * shape.size[2] * shape.size[3]

    def compute(inputs: Sequence[torch.Tensor]) -> Results:
        x, grad, weight, bias = inputs
        leaves = [t.requires_grad_() for t in (x, weight, bias)]
        if is_layer:
            out = functional.layer_norm(leaves[0], (width,), leaves[1], leaves[2])
        else:
            out = functional.batch_norm(leaves[0], None, None, leaves[1], leaves[2], training=True)
        grads = torch.autograd.grad(out, leaves, grad)
        return {"normalization_forward": [out], "normalization_backward": grads}

    rows = max(length, shape.size[0])
    return Case(
        str(shape),
        (shape.size, shape.size),
        compute,
        {"normalization_forward": length, "normalization_backward": rows},
        depth=FEW_OPERATIONS,
        parameters=((width,), (width,)),
    )
