"""Options and defaults of the task `export`, which exports a finished job's model again."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from redkiln.spec.exports import Export
from redkiln.spec.job_spec import JobSpec

NAME: Literal["export"] = "export"


class ExportSpec(JobSpec):
    """A job that exports the model of a finished job again, in other variants, without training."""

    exports: ClassVar[bool] = True
    required: ClassVar[dict[str, Any]] = {"source": "job_0000000000000000000000"}

    task: Literal["export"] = NAME
    source: Annotated[str, StringConstraints(pattern=r"^job_[0-9a-z]{22}$")] = Field(
        description="Id of the job whose model is exported; it must have succeeded."
    )
    export: Export = Field(default_factory=Export)


SPEC = ExportSpec
