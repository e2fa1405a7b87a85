"""Sizes as Python integers, so that no shape is ever a tensor and the batch stays dynamic."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

MOST_ELEMENTS = 2**27
"""Most elements of a tensor that a node makes out of sizes alone (512 MiB in float32)."""


@dataclass(frozen=True)
class Sizes:
    """An int64 scalar or vector on the host: a shape, or constants that shapes are made of."""

    values: tuple[int, ...]
    is_scalar: bool = False

    def to_tensor(self, device: torch.device) -> torch.Tensor:
        """Return the values as int64 on a device."""
        if all(type(value) is int for value in self.values):
            return _make_tensor(self.values, self.is_scalar, device)
        return torch.tensor(self.values[0] if self.is_scalar else self.values, device=device)


def read_numbers(value: Any) -> list[Any]:
    """Return the numbers of sizes or of a tensor; a scalar is a list of one."""
    if isinstance(value, Sizes):
        return list(value.values)
    numbers = value.tolist()
    return numbers if isinstance(numbers, list) else [numbers]


def count_elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape.

    Raises:
        ValueError: A size is negative, or there are more than `MOST_ELEMENTS`.
    """
    number = 1
    for size in shape:
        number *= size
    if number > MOST_ELEMENTS or any(size < 0 for size in shape):
        raise ValueError(
            f"a tensor of shape {list(shape)} is not allowed; a node may create at most "
            f"{MOST_ELEMENTS:,} elements from sizes"
        )
    return number


@functools.lru_cache(maxsize=4096)
def _make_tensor(values: tuple[int, ...], is_scalar: bool, device: torch.device) -> torch.Tensor:
    # A constant is copied to the device once, not in every step.
    return torch.tensor(values[0] if is_scalar else values, dtype=torch.int64, device=device)
