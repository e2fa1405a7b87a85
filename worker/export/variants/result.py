"""What is known of one variant of a model, as the manifest and the report show it."""

from typing import Any

from pydantic import BaseModel, Field

from redkiln.predict.cpu import detect_cpu
from redkiln.views.comparison import Interval
from redkiln.views.variants import VariantView
from worker.export.variants.providers import ProviderResult

LARGE_BATCH = 32
"""Batch size of the times by which variants are compared."""


class Latency(BaseModel):
    """Time of one call of the model.

    Attributes:
        batch: Samples in the call.
        threads: Threads of an operator.
        median_ms: Median time in milliseconds.
        p95_ms: 95 % of the calls were at most this slow.
    """

    batch: int
    threads: int
    median_ms: float
    p95_ms: float


class VariantResult(BaseModel):
    """One ONNX file of the model.

    Attributes:
        name: Name of the variant in the spec.
        file: Name of the file; empty if it could not be written.
        verified: Whether it passed its gate.
        misses: Limits that it missed, each with its numbers, or the reason why the file is missing.
        metric_name: Metric that the gate compares.
        metric: Its value on the test split under ONNX Runtime.
        interval: 95 % interval of the metric; None if computing it would take long.
        drop: How much worse the metric is than under torch.
        drop_as_written: The same if ONNX Runtime runs the graph without optimising it, on at most
            2,000 test samples: it tells a wrong file from a CPU that computes int8 differently.
        max_metric_drop: Allowed drop.
        agreement: Share of samples with the same class as under torch.
        max_abs: Largest difference of an output.
        cpu: CPU that the numbers are true for.
        details: How the file was made.
        latency: Times of calls; empty if only one file was written.
        providers: The file on other execution providers than the CPU, which do not decide.
    """

    name: str
    file: str = ""
    verified: bool = False
    misses: list[str] = Field(default_factory=list)
    metric_name: str = ""
    metric: float | None = None
    interval: Interval | None = None
    drop: float | None = None
    drop_as_written: float | None = None
    max_metric_drop: float
    agreement: float | None = None
    max_abs: float | None = None
    size_bytes: int = 0
    cpu: dict[str, Any] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)
    latency: list[Latency] = Field(default_factory=list)
    providers: list[ProviderResult] = Field(default_factory=list)

    def summarise(self, threads: int) -> dict[str, Any]:
        """Return the fields of `redkiln.views.variants.VariantView`, as JSON.

        Args:
            threads: Number of all threads.
        """
        known = self.model_dump(mode="json", include=set(VariantView.model_fields))
        return {**known, "median_ms": self.time_of(batch=LARGE_BATCH, threads=threads)}

    def time_of(self, *, batch: int, threads: int) -> float | None:
        """Return the median time of a call in milliseconds, or None if it was not measured."""
        for one in self.latency:
            if (one.batch, one.threads) == (batch, threads):
                return one.median_ms
        return None


def failed(name: str, error: Exception, *, max_drop: float) -> VariantResult:
    """Return the result of a file that cannot be made."""
    text = str(error).strip().partition("\n")[0][:300]
    return VariantResult(
        name=name,
        max_metric_drop=max_drop,
        misses=[f"the file cannot be made: {type(error).__name__}: {text}"],
        cpu=detect_cpu(),
    )
