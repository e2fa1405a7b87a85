"""Options and defaults of the example task `line-fit`."""

from typing import ClassVar, Literal

from pydantic import Field

from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.strict import Shorthand
from redkiln.tasks.tabular_regression import TabularRegressionTraining

NAME: Literal["line-fit"] = "line-fit"


class LineFitModel(Shorthand):
    """The model: one weight and one bias."""

    name: Literal["line"] = Field("line", description="`line`: y = weight * x + bias.")


class LineFitSpec(TrainingSpec):
    """A job that fits a line to points."""

    reads_any_dataset: ClassVar[bool] = True

    task: Literal["line-fit"] = NAME
    model: LineFitModel = Field(default_factory=LineFitModel)
    training: TabularRegressionTraining = Field(default_factory=TabularRegressionTraining)


SPEC = LineFitSpec
