"""Computes large matrix products in blocks of rows, for GPUs whose BLAS is wrong beyond a limit.

The functions replace torch's own kernels for one dispatch key, below autograd, so forward and
backward passes use them. Smaller products, and other types than float32 and float64, call torch's
kernel unchanged; a call takes some microseconds longer.

A program's own interpreter loads this file by its path (`hook/sitecustomize.py`), so it needs only
the standard library.

Source: ROCm/legacy-rocm-build#6595 (float32 products of more than 2^19 rows are wrong on gfx1201,
those of float16 and bfloat16 are right), ROCm/rocm-libraries#8645 (float64) and #9184 (the cause, a
limit of the grid; open when read on 2026-11-23).
"""

import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

Undo = Callable[[], None]


def split_products(torch: ModuleType, *, max_rows: int, key: str = "CUDA") -> Undo:
    """Replace torch's matrix products by ones that compute at most `max_rows` rows at once.

    Not replaced are the products that overwrite their first argument (`addmm_`).

    Args:
        torch: The module, after its import.
        max_rows: Largest number of rows that the BLAS library computes correctly.
        key: Dispatch key of the device; ROCm's is `CUDA`.

    Returns:
        A function that restores torch's own kernels.

    Raises:
        RuntimeError: This build of torch has no kernels for the device.
        AttributeError: This torch cannot return its kernels (`get_kernel`).
    """
    operators: Any = vars(torch)["library"]
    kernels = {
        name: operators.get_kernel(f"aten::{name}", key)
        for plain in ("mm", "addmm", "bmm", "baddbmm")
        for name in (plain, f"{plain}.out")
    }
    exact = (torch.float32, torch.float64)
    own_kernels = operators.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a kernel is replaced, as is intended
        for name, kernel in kernels.items():
            num_added = 1 if "add" in name else 0
            into = kernels[name if name.endswith(".out") else f"{name}.out"]
            own = _build(kernel, into, num_added=num_added, max_rows=max_rows, exact=exact)
            own_kernels.impl(name, own, key, with_keyset=True)

    def undo() -> None:
        own_kernels._destroy()

    return undo


def _build(
    kernel: Any, into: Any, *, num_added: int, max_rows: int, exact: tuple[Any, ...]
) -> Callable[..., Any]:
    """Build a product of the same form as `kernel`: mm(a, b), or addmm(added, a, b)."""

    def product(keys: Any, *tensors: Any, **options: Any) -> Any:
        a, b = tensors[num_added : num_added + 2]
        if a.dtype not in exact or not _has_more_rows(a, b, max_rows):
            return kernel.call_boxed(keys, *tensors, **options)
        out = options.pop("out", None)
        size = (*a.shape[:-1], b.shape[-1])
        if out is None:
            out = a.new_empty(size)
        elif out.shape != size:
            out.resize_(size)
        added = tensors[0] if num_added else None
        for rows in _blocks(a.shape[-2], max_rows):
            first = [_take(added, rows)] if num_added else []
            block = out[..., rows, :]
            into.call_boxed(keys, *first, a[..., rows, :], b, **options, out=block)
        return out

    return product


def _has_more_rows(a: Any, b: Any, max_rows: int) -> bool:
    """Return whether a valid product has too many rows; an invalid one is left to torch."""
    is_valid = a.dim() == b.dim() and a.dim() >= 2 and a.shape[-1] == b.shape[-2]
    return bool(is_valid and a.shape[-2] > max_rows)


def _blocks(num_rows: int, max_rows: int) -> Iterator[slice]:
    for first in range(0, num_rows, max_rows):
        yield slice(first, min(first + max_rows, num_rows))


def _take(added: Any, rows: slice) -> Any:
    """Return the rows of the added matrix; a row or number that is added to all rows stays."""
    if added.dim() < 2 or added.shape[-2] == 1:
        return added
    return added[..., rows, :]
