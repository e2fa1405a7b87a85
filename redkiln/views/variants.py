"""The ONNX files of a model in several precisions, as a result lists them."""

from pydantic import BaseModel, Field


class VariantView(BaseModel):
    """One file of a model.

    Attributes:
        name: Name of the variant in the spec.
        file: Name of the file; empty if it could not be written.
        metric_name: Metric that the gate compares.
        metric: Its value on the test split under ONNX Runtime.
        size_bytes: Size of the file.
        median_ms: Median time of a call with 32 samples and all threads, in milliseconds.
        misses: Missed limits, each with its numbers, or the reason why the file is missing.
    """

    name: str
    file: str = ""
    verified: bool = False
    metric_name: str = ""
    metric: float | None = None
    size_bytes: int = 0
    median_ms: float | None = None
    misses: list[str] = Field(default_factory=list)
