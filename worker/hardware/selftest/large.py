"""Tests of results that 32-bit offsets do not reach, for devices with the memory for them."""

import time
from collections.abc import Callable, Iterator

import torch

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea, SelfTestResult
from worker.hardware.health.verdicts import LARGE_OUTPUT
from worker.hardware.selftest.sgd import DTYPES

LARGE_BYTES = 2**31 + 4099
"""A byte over what signed 32-bit offsets reach, and not a multiple of a block."""
NEEDED_RATIO = 2
"""Free memory for it, as a multiple of its size."""
EXACT = 1e-12
"""Tolerance of whole numbers, which have no rounding errors."""
COLUMNS = 8192
DEPTH = 16
"""Columns of a large product, and terms of its sums; all numbers are 1, so each result is this."""
BLOCK_ROWS = 4096


def has_room(device: torch.device, size: int) -> bool:
    """Return whether a device has the memory to test a result of so many bytes."""
    return device.type != "cuda" or torch.cuda.mem_get_info(device)[0] >= NEEDED_RATIO * size


def count_large_elements(
    device: torch.device, *, size: int = LARGE_BYTES
) -> Iterator[SelfTestResult]:
    """Test a sum over more bytes than 32-bit offsets reach, if there is memory for it."""
    if not has_room(device, size):
        return
    began = time.perf_counter()
    found, right = count_large(device, size=size)
    yield _judge("reduction", "fp32", None, f"sum of {size} bytes", size, (found, right), began)


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


def multiply_large(
    device: torch.device, precision: Precision, library: str | None, *, size: int = LARGE_BYTES
) -> Iterator[SelfTestResult]:
    """Test a product whose result is larger than 32-bit offsets reach, without and with a bias.

    Source: ROCm/hipBLASLt#2299 (parts of such results were not written), read 2026-11-24.

    Args:
        device: Device to compute on.
        precision: Type of the factors and of the result.
        library: Library that computes it, for the report.
        size: Least number of bytes of the result.
    """
    if not has_room(device, size):
        return
    dtype, began = DTYPES[precision], time.perf_counter()
    rows = -(-size // (COLUMNS * dtype.itemsize))
    shape, counts, error = f"{LARGE_OUTPUT}, {rows}x{DEPTH}x{COLUMNS}", None, ""
    try:
        counts = _count_right(device, dtype, rows), 2 * rows * COLUMNS
    except (torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    except RuntimeError as refused:
        error = str(refused)
    yield _judge("gemm", precision, library, shape, DEPTH, counts, began, error)


def _count_right(device: torch.device, dtype: torch.dtype, rows: int) -> int:
    """Return how many numbers of a product without and of one with a bias are right."""
    a = torch.ones(rows, DEPTH, dtype=dtype, device=device)
    b = torch.ones(DEPTH, COLUMNS, dtype=dtype, device=device)
    bias = torch.ones(COLUMNS, dtype=dtype, device=device)
    out = torch.empty(rows, COLUMNS, dtype=dtype, device=device)

    def count_right(multiply: Callable[[], object], value: int) -> int:
        out.fill_(float("nan"))  # what is not written must not look right
        multiply()
        starts = range(0, rows, BLOCK_ROWS)
        return sum(int((out[i : i + BLOCK_ROWS] == value).sum()) for i in starts)

    found = count_right(lambda: torch.mm(a, b, out=out), DEPTH)
    return found + count_right(lambda: torch.addmm(bias, a, b, out=out), DEPTH + 1)


def _judge(
    area: SelfTestArea,
    precision: Precision,
    library: str | None,
    shape: str,
    reduction_length: int,
    counts: tuple[int, int] | None,
    began: float,
    error: str = "",
) -> SelfTestResult:
    found, right = counts or (0, 1)
    is_good = counts is not None and found == right
    return SelfTestResult(
        area=area,
        precision=precision,
        library=library,
        shape=shape,
        reduction_length=reduction_length,
        max_abs_error=float(abs(found - right)) if counts else None,
        max_rel_error=abs(found - right) / right if counts else None,
        tolerance=EXACT,
        verdict="passed" if is_good else "failed" if counts else "error",
        seconds=time.perf_counter() - began,
        error=error[:500],
    )
