"""Options and defaults of the task `benchmark`, which measures a device and trains nothing."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from redkiln.spec.job_spec import JobSpec
from redkiln.spec.strict import Auto, StrictModel
from redkiln.views.hardware import Precision

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
"""What `--quick` measures: enough to see whether a card performs as it should."""


class Measure(StrictModel):
    """What to measure, and for how long."""

    tests: list[TestName] = Field(
        default_factory=lambda: list(TESTS),
        min_length=1,
        description="Tests to run. `training` is a step of ResNet-18; `allreduce` needs several "
        "GPUs.",
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
        description="Side of the images of a step in pixels; `auto` is 224 on a GPU and 32 on a "
        "CPU.",
    )
    seconds: float = Field(
        180.0,
        ge=1,
        le=3600,
        description="Time for all measurements together, which share it. Tests that have not "
        "started when it is over are left out and listed.",
    )
    samples: int = Field(
        15, ge=3, le=1000, description="Most samples of each test; fewer if its time is over."
    )
    compare: bool = Field(
        True,
        description="Also run the key tests with and without Redkiln's patches, alternately in "
        "separate processes.",
    )


class BenchmarkSpec(JobSpec):
    """A job that measures a worker's device and recommends settings for training."""

    max_gpus: ClassVar[int] = 64

    task: Literal["benchmark"] = NAME
    measure: Measure = Field(default_factory=Measure)


SPEC = BenchmarkSpec
