"""The result of a benchmark, as stored in `benchmark.json`, and the comparison of two results.

All values are rates, so more is better. `spread` is the interquartile range of a rate's samples as
a fraction of their median, which shows whether a difference is more than noise. A new field gets a
default; a field that changes its meaning raises `SCHEMA_VERSION`.
"""

import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from redkiln.tasks.benchmark import TestName
from redkiln.views.hardware import GpuFacts, PatchOutcome, Precision

SCHEMA_VERSION = 1
FILE_NAME = "benchmark.json"

Unit = Literal["TFLOP/s", "GB/s", "images/s"]
Layout = Literal["contiguous", "channels_last"]


class ResultModel(BaseModel):
    """A part of a result; unknown fields are ignored, so that newer files can be read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Rate(ResultModel):
    """A measured rate.

    Attributes:
        value: Median of the samples.
        spread: Interquartile range as a fraction of the median.
        num_samples: Number of samples; 0 if a published figure does not say it.
    """

    value: float
    spread: float
    num_samples: int


class Measurement(ResultModel):
    """One test in one data type and memory layout.

    Attributes:
        id: Name that is the same on every machine (`matmul/4096/fp16`).
        rate: None if it was not measured; `skipped` says why.
        seconds: Duration of one call.
        peak: Theoretical maximum of the hardware, in `unit`; None if unknown.
        flop_per_byte: Operations per byte of memory if each operand is moved once, for a roofline;
            None for a test that is not a single operation.
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
    flop_per_byte: float | None = None
    skipped: str | None = None

    @property
    def share(self) -> float | None:
        """The reached fraction of the peak; None if either is unknown."""
        if self.rate is None or not self.peak:
            return None
        return self.rate.value / self.peak


class Pair(ResultModel):
    """A test without and with something; `spread` is the larger of the two."""

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
        """The rate with it divided by the rate without it; above 1 means that it helps."""
        return self.with_ / self.without


class Comparison(ResultModel):
    """The key tests without and with something, measured alternately in two processes.

    Attributes:
        name: `patches`, `tunableop`.
        pairs: Compared tests; empty if the comparison was not made, and `skipped` says why.
        variables: Environment variables that only one of the two processes had.
        largest_difference: Difference of their outputs, relative to the largest output.
        agrees: Whether that difference is within the rounding of the data types.
        patches: Outcome of each patch.
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
    """A recommendation that follows from the numbers.

    Attributes:
        code: Machine-readable kind (`use_precision`, `channels_last`, `pin_memory`, ...).
        text: The recommendation, with its numbers.
        setting: Setting for a job spec, if it is about one.
        numbers: Numbers that it is based on, by name.
    """

    code: str
    text: str
    setting: str | None = None
    numbers: dict[str, float] = Field(default_factory=dict)


class Machine(ResultModel):
    """The machine that was measured.

    Attributes:
        device: Product name of the GPU, or of the CPU.
        gpus: Facts about the GPUs of the job; empty on a CPU.
        memory_bytes: Memory of the device.
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
    """The whole result of one benchmark."""

    schema_version: int = SCHEMA_VERSION
    at: datetime
    seconds: float
    machine: Machine
    notes: list[str] = Field(default_factory=list)
    measurements: list[Measurement] = Field(default_factory=list)
    comparisons: list[Comparison] = Field(default_factory=list)
    recommendations: list[Recommendation] = Field(default_factory=list)

    def find(self, measurement_id: str) -> Measurement | None:
        """Return the test with an id, if it was measured."""
        for measurement in self.measurements:
            if measurement.id == measurement_id and measurement.rate is not None:
                return measurement
        return None


class WorkerBenchmark(ResultModel):
    """The newest benchmark of a worker, with the job that measured it."""

    job_id: str
    job_name: str
    finished_at: datetime | None = None
    result: BenchmarkResult


def load_result(path: Path) -> BenchmarkResult:
    """Read `benchmark.json`.

    Raises:
        ValueError: The file is not a benchmark, or its schema is newer than this release.
        OSError: The file cannot be read.
    """
    result = BenchmarkResult.model_validate_json(path.read_bytes())
    if result.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"its schema {result.schema_version} is newer than {SCHEMA_VERSION}, the newest that "
            "this release knows; update redkiln"
        )
    return result


class SideBySide(ResultModel):
    """One test on two machines; `ratio` is second / first, or None unless both have it."""

    id: str
    title: str
    unit: Unit
    first: Rate | None = None
    second: Rate | None = None

    @property
    def ratio(self) -> float | None:
        """How many times faster the second machine is."""
        if self.first is None or self.second is None:
            return None
        return self.second.value / self.first.value


def summarise(samples: Sequence[float]) -> Rate:
    """Return a rate from its samples."""
    median = statistics.median(samples)
    spread = 0.0
    if len(samples) > 1:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
        spread = (high - low) / median
    return Rate(value=median, spread=spread, num_samples=len(samples))


def compare_results(first: BenchmarkResult, second: BenchmarkResult) -> list[SideBySide]:
    """Return every test of either result: those of the first in order, then those of the second."""
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
    """Format a rate with its unit; rates of a CPU's products are shown in GFLOP/s."""
    if unit == "TFLOP/s" and value < 1:
        return f"{number_words(1e3 * value)} GFLOP/s"
    return f"{number_words(value)} {unit}"


def number_words(value: float) -> str:
    """Format a number with three significant digits: `0.0123`, `81.2`, `1,234`."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
