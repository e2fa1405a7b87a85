"""Options and defaults of the task `tabular-regression`."""

from typing import ClassVar, Literal

from pydantic import Field

from redkiln.spec.tabular import TabularSpec, TabularTraining

NAME: Literal["tabular-regression"] = "tabular-regression"


class TabularRegressionTraining(TabularTraining):
    """Training of a regressor; its losses are for targets with mean 0 and standard deviation 1."""

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/rmse": "lower",
        "val/mae": "lower",
        "val/r2": "higher",
    }

    loss: Literal["mse", "huber", "mae"] = Field(
        "mse",
        description="Loss to minimise: squared error, absolute error, or `huber`, which is squared "
        "up to one standard deviation and linear beyond, so that outliers count less.",
    )
    target_transform: Literal["auto", "none", "log"] = Field(
        "auto",
        description="What to train on: the target as it is (`none`), or its natural logarithm "
        "(`log`), which suits many prices and other targets above 0 with a long tail. `auto` takes "
        "the logarithm if simple models predict training rows clearly better with it; this needs "
        "`loss: mse` and no other files than fp32. The exported model predicts the target itself "
        "in any case, and `rmse`, `mae` and `r2` are its own.",
    )


class TabularRegressionSpec(TabularSpec):
    """A job that trains a model to predict a number from the rows of a table."""

    task: Literal["tabular-regression"] = NAME
    training: TabularRegressionTraining = Field(default_factory=TabularRegressionTraining)


SPEC = TabularRegressionSpec
