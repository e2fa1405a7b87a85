"""Options and defaults of the task `tabular-classification`."""

from typing import ClassVar, Literal

from pydantic import Field

from redkiln.spec.class_weights import ClassifierTraining
from redkiln.spec.tabular import TabularSpec, TabularTraining

NAME: Literal["tabular-classification"] = "tabular-classification"


class TabularClassifierTraining(TabularTraining, ClassifierTraining):
    """Training of a classifier of table rows."""

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/accuracy": "higher",
        "val/macro_f1": "higher",
    }


class TabularClassificationSpec(TabularSpec):
    """A job that trains a classifier on the rows of a table."""

    task: Literal["tabular-classification"] = NAME
    training: TabularClassifierTraining = Field(default_factory=TabularClassifierTraining)


SPEC = TabularClassificationSpec
