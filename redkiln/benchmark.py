"""The result of a benchmark, as `benchmark.json` holds it, and two of them side by side.

Every value is a rate: more is better. `spread` is the interquartile range of a rate's samples as a
share of their median, so that a difference can be told from noise. A field that is new is added
with a default; one that changes its meaning raises `SCHEMA_VERSION`.
"""

import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from redkiln.hardware import GpuFacts, PatchOutcome, Precision
from redkiln.tasks.benchmark import TestName

SCHEMA_VERSION = 1
FILE_NAME = "benchmark.json"

Unit = Literal["TFLOP/s", "GB/s", "images/s"]
Layout = Literal["contiguous", "channels_last"]


class ResultModel(BaseModel):
    """A part of a result; unknown fields are ignored, so that a newer file can be read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Rate(ResultModel):
    """A rate as it was measured.

    Attributes:
        value: median of the samples.
        spread: interquartile range as a share of the median.
        num_samples: how many there were.
    """

    value: float
    spread: float
    num_samples: int


class Measurement(ResultModel):
    """One test in one type and layout.

    Attributes:
        id: the same on every machine (`matmul/4096/fp16`).
        rate: None when it was not measured; `skipped` says why.
        seconds: of one call.
        peak: what the hardware could do at most, in `unit`; None when that is unknown.
    """

    id: str
    test: TestName
    title: str
    unit: Unit
    precision: Precision | None = None
    layout: Layout | None = None
    size: int | None = None
    rate: Rate | None = None
    seconds: float | None = None
    peak: float | None = None
    skipped: str | None = None

    @property
    def share(self) -> float | None:
        """Of the peak that was reached; None when either is unknown."""
        if self.rate is None or not self.peak:
            return None
        return self.rate.value / self.peak


class Pair(ResultModel):
    """A test without and with something. `spread` is the larger one of both."""

    id: str
    title: str
    unit: Unit
    without: float
    with_: float = Field(alias="with", serialization_alias="with")
    spread: float
    num_samples: int

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    @property
    def ratio(self) -> float:
        """Above 1 where it helps."""
        return self.with_ / self.without


class Comparison(ResultModel):
    """The key tests without and with something, each in a process of its own, by turns.

    Attributes:
        name: `patches`, `tunableop`.
        pairs: empty when it was not made; `skipped` says why.
        variables: of the environment, that the one process had and the other had not.
        largest_difference: between the outputs of both, relative to the largest output.
        agrees: whether that is within rounding of the types.
        patches: what became of each.
    """

    name: str
    title: str
    pairs: list[Pair] = Field(default_factory=list)
    variables: dict[str, str] = Field(default_factory=dict)
    largest_difference: float | None = None
    agrees: bool | None = None
    patches: list[PatchOutcome] = Field(default_factory=list)
    skipped: str | None = None


class Recommendation(ResultModel):
    """What follows from the numbers.

    Attributes:
        code: machine-readable (`use_precision`, `channels_last`, `pin_memory`, ...).
        text: with its numbers.
        setting: what to write into a job spec, where it is a matter of one.
        numbers: that it rests on, by name.
    """

    code: str
    text: str
    setting: str | None = None
    numbers: dict[str, float] = Field(default_factory=dict)


class Machine(ResultModel):
    """Where it was measured.

    Attributes:
        device: product name of the GPU, or of the CPU.
        gpus: facts of those that the job had; empty on a CPU.
        memory_bytes: of the device.
    """

    hostname: str
    kind: Literal["gpu", "cpu"]
    device: str
    gfx: str | None = None
    cpu: str
    num_cores: int
    num_threads: int
    memory_bytes: int | None = None
    gpus: list[GpuFacts] = Field(default_factory=list)
    versions: dict[str, str | None] = Field(default_factory=dict)


class BenchmarkResult(ResultModel):
    """All of one benchmark."""

    schema_version: int = SCHEMA_VERSION
    at: datetime
    seconds: float
    machine: Machine
    notes: list[str] = Field(default_factory=list)
    measurements: list[Measurement] = Field(default_factory=list)
    comparisons: list[Comparison] = Field(default_factory=list)
    recommendations: list[Recommendation] = Field(default_factory=list)

    def find(self, measurement_id: str) -> Measurement | None:
        """The test of an id, if it was measured."""
        for measurement in self.measurements:
            if measurement.id == measurement_id and measurement.rate is not None:
                return measurement
        return None


def load_result(path: Path) -> BenchmarkResult:
    """Read `benchmark.json`.

    Raises:
        ValueError: it is none, or of a schema that this release does not know.
        OSError: it cannot be read.
    """
    result = BenchmarkResult.model_validate_json(path.read_bytes())
    if result.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"it has schema {result.schema_version}, and {SCHEMA_VERSION} is the newest known "
            "here; update redkiln"
        )
    return result


class SideBySide(ResultModel):
    """One test on two machines. `ratio` is the second by the first; None unless both have it."""

    id: str
    title: str
    unit: Unit
    first: Rate | None = None
    second: Rate | None = None

    @property
    def ratio(self) -> float | None:
        """How much faster the second one is."""
        if self.first is None or self.second is None:
            return None
        return self.second.value / self.first.value


def summarise(samples: Sequence[float]) -> Rate:
    """The rate of some samples of it."""
    median = statistics.median(samples)
    spread = 0.0
    if len(samples) > 1:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
        spread = (high - low) / median
    return Rate(value=median, spread=spread, num_samples=len(samples))


def compare_results(first: BenchmarkResult, second: BenchmarkResult) -> list[SideBySide]:
    """Every test that one of two results has, in the order of the first, then of the second."""
    by_id = [{m.id: m for m in result.measurements if m.rate} for result in (first, second)]
    rows = []
    for measured in {**by_id[0], **by_id[1]}.values():
        one, other = (known.get(measured.id) for known in by_id)
        rows.append(
            SideBySide(
                id=measured.id,
                title=measured.title,
                unit=measured.unit,
                first=one.rate if one else None,
                second=other.rate if other else None,
            )
        )
    return rows


def amount_words(value: float, unit: Unit) -> str:
    """A rate with its unit; the products of a CPU read better in GFLOP/s."""
    if unit == "TFLOP/s" and value < 1:
        return f"{number_words(1e3 * value)} GFLOP/s"
    return f"{number_words(value)} {unit}"


def number_words(value: float) -> str:
    """Three significant digits, thousands apart: `0.0123`, `81.2`, `1,234`."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
