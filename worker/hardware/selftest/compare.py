"""Compares a device's numbers with the right ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Difference:
    """The result of a comparison.

    Attributes:
        max_abs: Largest absolute difference; None if one of the device's numbers is not finite.
        max_rel: The same, relative to the root mean square of the right numbers.
        zeros_ratio: Share of the device's numbers that are exactly 0.
        nan_count: Count of the device's numbers that are NaN or infinite.
    """

    max_abs: float | None
    max_rel: float | None
    zeros_ratio: float
    nan_count: int


def compare(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> Difference:
    """Compare a device's results with the CPU's in float64; return the worst of each measure."""
    found = [_compare_one(mine, right) for mine, right in zip(got, want, strict=True)]
    zeros_ratio = max(d.zeros_ratio for d in found)
    nan_count = sum(d.nan_count for d in found)
    if nan_count:
        return Difference(None, None, zeros_ratio, nan_count)
    max_abs = max(d.max_abs for d in found if d.max_abs is not None)
    max_rel = max(d.max_rel for d in found if d.max_rel is not None)
    return Difference(max_abs, max_rel, zeros_ratio, nan_count)


def _compare_one(got: torch.Tensor, want: torch.Tensor) -> Difference:
    assert got.shape == want.shape
    want = want.detach()
    mine = got.detach().to(device="cpu", dtype=torch.float64)
    zeros_ratio = float((mine == 0).double().mean())
    nan_count = int((~torch.isfinite(mine)).sum())
    if nan_count:
        return Difference(None, None, zeros_ratio, nan_count)
    max_abs = float((mine - want).abs().max())
    rms = float(want.square().mean().sqrt())
    return Difference(max_abs, max_abs / rms, zeros_ratio, nan_count)
