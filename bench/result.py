"""One measured figure and its target."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """A figure of a benchmark.

    Attributes:
        target: Smallest allowed value of a ratio, largest of a time; None: for information only.
        ok: Whether the target is met; None without a target.
        detail: Description of the measurement, with spread and sample count.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    ok: bool | None = None
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as it is written to `bench/out/latest.json`."""
        return asdict(self)


def at_least(name: str, value: float, unit: str, target: float, detail: str) -> Result:
    """Build a figure that should not be below its target."""
    return Result(name, value, unit, target, value >= target, detail)


def at_most(name: str, value: float, unit: str, target: float, detail: str) -> Result:
    """Build a figure that should not be above its target."""
    return Result(name, value, unit, target, value <= target, detail)


def info(name: str, value: float, unit: str, detail: str) -> Result:
    """Build a figure without a target."""
    return Result(name, value, unit, None, None, detail)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def spread(values: Sequence[float]) -> str:
    """Format the median, the middle half of the values, and their number."""
    ordered = sorted(values)
    low, high = percentile(ordered, 0.25), percentile(ordered, 0.75)
    middle = statistics.median(ordered)
    return f"median {middle:.4g}, half in {low:.4g}..{high:.4g}, n={len(values)}"
