"""Options and defaults of the task `benchmark`: nothing is trained, the device is measured."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from redkiln.hardware import Precision
from redkiln.spec import Auto, JobSpec, StrictModel

NAME: Literal["benchmark"] = "benchmark"
TestName = Literal["matmul", "convolution", "memory", "training", "copies", "allreduce"]

TESTS: tuple[TestName, ...] = (
    "matmul",
    "convolution",
    "memory",
    "training",
    "copies",
    "allreduce",
)
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16")


QUICK: dict[str, Any] = {
    "tests": ["matmul", "memory", "training", "copies"],
    "seconds": 30.0,
    "samples": 7,
    "compare": False,
}
"""What `--quick` measures: enough to see that a card does what it should."""


class Measure(StrictModel):
    """What is measured, and for how long."""

    tests: list[TestName] = Field(
        default_factory=lambda: list(TESTS),
        min_length=1,
        description="What to measure. `training` is a step of ResNet-18, `copies` are copies to "
        "the device, `allreduce` needs several GPUs.",
    )
    sizes: Auto | Annotated[list[Annotated[int, Field(ge=16, le=32768)]], Field(min_length=1)] = (
        Field(
            "auto",
            description="Sides of the square matrices; `auto` is 1024 to 8192 on a GPU and 256 to "
            "1024 on a CPU.",
        )
    )
    precisions: list[Precision] = Field(
        default_factory=lambda: list(PRECISIONS),
        min_length=1,
        description="Number formats to measure; those that the device lacks are listed with the "
        "reason.",
    )
    batch_size: Auto | Annotated[int, Field(ge=1, le=4096)] = Field(
        "auto",
        description="Images in a ResNet-18 step and in a convolution; `auto` is 64 on a GPU and 4 "
        "on a CPU.",
    )
    image_size: Auto | Annotated[int, Field(ge=32, le=512)] = Field(
        "auto",
        description="Side of the images in a ResNet-18 step, in pixels; `auto` is 224 on a GPU and "
        "32 on a CPU.",
    )
    seconds: float = Field(
        180.0,
        ge=1,
        le=3600,
        description="Time for all measurements together. Each test gets a share; a test that has "
        "not started when the time is over is skipped and listed.",
    )
    samples: int = Field(
        15,
        ge=3,
        le=1000,
        description="Samples per test; fewer if the test's share of the time is over.",
    )
    compare: bool = Field(
        True,
        description="Also measure the main tests with and without Redkiln's patches, alternately "
        "in separate processes.",
    )


class BenchmarkSpec(JobSpec):
    """A job that measures what a worker's device can do, and says what follows for training."""

    max_gpus: ClassVar[int] = 64

    task: Literal["benchmark"] = NAME
    measure: Measure = Field(default_factory=Measure)
