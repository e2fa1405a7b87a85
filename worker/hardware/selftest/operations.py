"""Operations that training calls besides products, convolutions, attention and norms.

They are tested in float32: in narrower types torch computes them in float32 or not at all, and a
different order of equal numbers would change the gradients of maxima.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.nn import functional

from redkiln.views.self_test import SelfTestArea
from worker.hardware.selftest.cases import FEW_OPERATIONS, Case, Results

IMAGES = (4, 8, 24, 24)
ROWS, WIDTH, PICKED = 300, 32, 2048
PLACES = 24 * 24
"""Rounding of a place between pixels grows with the size of the image, like that of a sum."""
LONG = 100_003
"""Terms of the long sums; no block of threads divides it."""

Compute = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


def build_operations() -> Iterator[Case]:
    """Yield the cases of the full test."""
    pooled = (*IMAGES[:2], 12, 12)
    grid = (IMAGES[0], 16, 16, 2)
    yield _case("sampling", "grid_sample", _sample, (IMAGES, grid, (*IMAGES[:2], 16, 16)), PLACES)
    yield _case("sampling", "max_pool2d", _pool_max, (IMAGES, pooled), 1)
    yield _case("sampling", "avg_pool2d", _pool_average, (IMAGES, pooled), 9)
    yield _case(
        "sampling", "interpolate bilinear", _resize, (IMAGES, (*IMAGES[:2], 40, 40)), PLACES
    )
    yield _case("indexing", "embedding", _embed, ((ROWS, WIDTH), (PICKED, WIDTH)), PICKED)
    yield _case("indexing", "scatter_add", _scatter, ((PICKED, WIDTH),), PICKED)
    yield _case("indexing", "index_add", _add_rows, ((ROWS, WIDTH), (PICKED, WIDTH)), PICKED)
    yield _case("indexing", "sparse product", _multiply_sparse, ((ROWS, ROWS), (ROWS, WIDTH)), ROWS)
    yield _case("reduction", "cumsum", _accumulate, ((8, 4001),), 4001)
    yield _case("reduction", "sort", _sort, ((64, 4001),), 1)
    yield _case("reduction", "sum, mean and softmax", _reduce, ((3, LONG),), LONG)


def _case(
    area: SelfTestArea, shape: str, compute: Compute, sizes: Sequence[tuple[int, ...]], length: int
) -> Case:
    def run(inputs: Sequence[torch.Tensor]) -> Results:
        return {area: compute(inputs)}

    return Case(
        shape, sizes, run, {area: length}, depth=FEW_OPERATIONS, precisions=frozenset({"fp32"})
    )


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
    return _with_gradient(lambda t: functional.max_pool2d(t, 3, stride=2, padding=1), *inputs)


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
    (values,) = inputs
    places = _pick(values)[:, None].expand_as(values)
    return [values.new_zeros(ROWS, WIDTH).scatter_add(0, places, values)]


def _add_rows(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    table, values = inputs
    return [table.index_add(0, _pick(values), values)]


def _multiply_sparse(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    full, dense = inputs
    kept = torch.where(full > 1, full, torch.zeros_like(full))
    return [torch.sparse.mm(kept.to_sparse(), dense)]


def _accumulate(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [inputs[0].cumsum(dim=1)]


def _sort(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values, order = inputs[0].sort(dim=1)
    return [values, inputs[0].gather(1, order)]


def _reduce(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    (x,) = inputs
    return [x.square().sum(1), x.abs().mean(1), x.logsumexp(1), x.amax(1)]


def _pick(like: torch.Tensor) -> torch.Tensor:
    """Return row numbers of which most repeat, the same on every device."""
    return (torch.arange(PICKED, device=like.device) * 7919) % ROWS


LARGE_BYTES = 2**31 + 4099
"""A byte over what signed 32-bit offsets reach, and not a multiple of a block."""
NEEDED_RATIO = 2
"""Free memory for it, as a multiple of its size."""


def count_large(device: torch.device, *, size: int = LARGE_BYTES) -> tuple[int, int]:
    """Sum a tensor larger than 32-bit offsets reach.

    Args:
        device: Device to compute on.
        size: Number of elements of one byte.

    Returns:
        The sum, and the right sum.
    """
    step = 4097
    x = torch.zeros(size, dtype=torch.uint8, device=device)
    x[::step] = 1
    x[-1] = 1
    right = -(-size // step) + (0 if (size - 1) % step == 0 else 1)
    return int(x.sum(dtype=torch.int64)), right
