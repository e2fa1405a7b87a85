"""Operations that training calls besides products, convolutions, attention and norms.

Those that autocast computes in the narrower type are tested in every type, the others in float32.
The inputs of maxima have no equal numbers next to each other, whose order would decide where the
gradient goes, and sorting is stable.

Source: torch.amp's documentation, the lists of operations of CUDA that autocast to float32.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.nn import functional

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea
from worker.hardware.selftest.cases import FEW_OPERATIONS, Case, Results

IMAGES = (4, 8, 24, 24)
ROWS, WIDTH, PICKED = 300, 32, 2048
PLACES = 24 * 24
"""Rounding of a place between pixels grows with the size of the image, like that of a sum."""
LONG = 100_003
"""Terms of the long sums; no block of threads divides it."""

ALL: frozenset[Precision] = frozenset({"fp32", "fp16", "bf16"})

Compute = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


def build_operations() -> Iterator[Case]:
    """Yield the cases of the full test."""
    pooled = (*IMAGES[:2], 12, 12)
    grid = (IMAGES[0], 16, 16, 2)
    rows, picked, counted = (ROWS, WIDTH), (PICKED, WIDTH), (64, 4001)
    resized = (*IMAGES[:2], 40, 40)
    yield _case("sampling", "grid_sample", _sample, (IMAGES, grid, (*IMAGES[:2], 16, 16)), PLACES)
    yield _case("sampling", "max_pool2d", _pool_max, (IMAGES, pooled), 1, in_all=True)
    yield _case("sampling", "avg_pool2d", _pool_average, (IMAGES, pooled), 9, in_all=True)
    yield _case("sampling", "interpolate bilinear", _resize, (IMAGES, resized), PLACES, in_all=True)
    yield _case("indexing", "embedding", _embed, (rows, picked), PICKED, in_all=True)
    yield _case("indexing", "scatter_add", _scatter, (picked, rows), PICKED, in_all=True)
    yield _case("indexing", "index_add", _add_rows, (picked, rows, rows), PICKED, in_all=True)
    yield _case("indexing", "sparse product", _multiply_sparse, (rows, (ROWS, ROWS), rows), ROWS)
    yield _case("reduction", "cumsum", _accumulate, ((8, 4001), (8, 4001)), 4001)
    yield _case("reduction", "sort", _sort, (counted, counted), 1, in_all=True)
    yield _case("reduction", "sum, mean and softmax", _reduce, ((3, LONG), (3,)), LONG)


def _case(
    area: SelfTestArea,
    shape: str,
    compute: Compute,
    sizes: Sequence[tuple[int, ...]],
    length: int,
    *,
    in_all: bool = False,
) -> Case:
    def run(inputs: Sequence[torch.Tensor]) -> Results:
        return {area: compute(inputs)}

    precisions = ALL if in_all else frozenset[Precision]({"fp32"})
    return Case(shape, sizes, run, {area: length}, depth=FEW_OPERATIONS, precisions=precisions)


def _with_gradient(
    apply: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, grad: torch.Tensor
) -> list[torch.Tensor]:
    leaf = x.requires_grad_()
    out = apply(leaf)
    return [out, *torch.autograd.grad(out, [leaf], grad)]


def _sample(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    x, places, grad = inputs
    grid = torch.tanh(places)
    return _with_gradient(
        lambda t: functional.grid_sample(t, grid, align_corners=False, padding_mode="border"),
        x,
        grad,
    )


def _pool_max(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    x, grad = inputs
    side = torch.arange(x.shape[-1], device=x.device) % 3
    place = 3 * side[:, None] + side  # a window of 3 x 3 has each number from 0 to 8 once
    distinct = place + 9.0 * (x > 0)
    return _with_gradient(
        lambda t: functional.max_pool2d(t, 3, stride=2, padding=1), distinct.to(x.dtype), grad
    )


def _pool_average(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _with_gradient(lambda t: functional.avg_pool2d(t, 3, stride=2, padding=1), *inputs)


def _resize(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _with_gradient(
        lambda t: functional.interpolate(t, size=(40, 40), mode="bilinear", align_corners=False),
        *inputs,
    )


def _embed(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    picked = _pick(inputs[0])
    return _with_gradient(lambda table: functional.embedding(picked, table), *inputs)


def _scatter(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values, grad = inputs
    places = _pick(values)[:, None].expand_as(values)
    empty = values.new_zeros(ROWS, WIDTH)
    return _with_gradient(lambda t: empty.scatter_add(0, places, t), values, grad)


def _add_rows(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values, table, grad = inputs
    places = _pick(values)
    return _with_gradient(lambda t: table.index_add(0, places, t), values, grad)


def _multiply_sparse(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    dense, full, grad = inputs
    kept = torch.where(full > 1, full, torch.zeros_like(full)).to_sparse()
    return _with_gradient(lambda t: torch.sparse.mm(kept, t), dense, grad)


def _accumulate(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _with_gradient(lambda t: t.cumsum(dim=1), *inputs)


def _sort(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    x, grad = inputs
    found = _with_gradient(lambda t: t.sort(dim=1, stable=True).values, x, grad)
    return [*found, x.gather(1, x.argsort(dim=1, stable=True))]


def _reduce(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    x, grad = inputs
    sums = _with_gradient(
        lambda t: t.square().sum(1) + t.abs().mean(1) + t.logsumexp(1), x.clone(), grad
    )
    return [*sums, x.square().sum(1), x.abs().mean(1), x.logsumexp(1), x.amax(1)]


def _pick(like: torch.Tensor) -> torch.Tensor:
    """Return row numbers of which most repeat, the same on every device."""
    return (torch.arange(PICKED, device=like.device) * 7919) % ROWS
