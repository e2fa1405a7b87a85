"""Reports of the self-test, which compares a device's numbers with the CPU's."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from redkiln.views.hardware import HardwareModel, Precision

SelfTestArea = Literal[
    "gemm",
    "gemm_tall_skinny",
    "gemm_many_rows",
    "linear",
    "convolution_forward",
    "convolution_backward_input",
    "convolution_backward_weight",
    "attention_forward",
    "attention_backward",
    "normalization_forward",
    "normalization_backward",
    "sampling",
    "indexing",
    "reduction",
    "sgd",
]


class SelfTestResult(HardwareModel):
    """One comparison of a result computed on the device with float64 on the CPU.

    Attributes:
        library: Library that was requested (`rocblas`, `hipblaslt`, `flash`); None if torch cannot
            be asked for one.
        reduction_length: Terms of the longest sum, on which rounding depends.
        max_abs_error: Largest difference; None if a number is not finite.
        max_rel_error: The same, relative to the root mean square of the right values.
        tolerance: Largest allowed `max_rel_error`.
        zeros_ratio: Fraction of zeros in the device's numbers where it is largest; wrong kernels
            leave zeros.
        error: Message of the exception if the operation could not run.
    """

    area: SelfTestArea
    precision: Precision
    library: str | None = None
    shape: str
    reduction_length: int
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    tolerance: float
    zeros_ratio: float = 0.0
    nan_count: int = 0
    verdict: Literal["passed", "failed", "error"]
    seconds: float
    error: str = ""


class SelfTestReport(HardwareModel):
    """Whether one device computes correctly with one set of versions.

    Attributes:
        device: Name of the device in torch.
        settings: Environment variables that change which kernels run, as they were in the test.
        status: `error` if the test could not run; `cause` says why.
    """

    at: datetime
    device: str
    name: str | None = None
    gfx: str | None = None
    pci_address: str | None = None
    versions: dict[str, str | None] = Field(default_factory=dict)
    settings: dict[str, str] = Field(default_factory=dict)
    is_quick: bool = False
    status: Literal["passed", "failed", "error"]
    cause: str = ""
    results: list[SelfTestResult] = Field(default_factory=list)
    seconds: float = 0.0

    @property
    def bad(self) -> list[SelfTestResult]:
        """The results that did not pass."""
        return [result for result in self.results if result.verdict != "passed"]
