"""The model and the training of a table, for both tabular tasks."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from redkiln.spec import Auto, Shorthand, StrictModel, Training

Width = Annotated[int, Field(ge=1, le=16_384)]


class TabularOptions(StrictModel):
    """A few of the network's own settings."""

    hidden: list[Width] = Field(
        default_factory=lambda: [128, 64],
        min_length=1,
        max_length=16,
        description="Width of each hidden layer of mlp; linear has none.",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="After each hidden layer of mlp.")
    embedding_size: Auto | Annotated[int, Field(ge=1, le=1024)] = Field(
        "auto",
        description="Numbers that stand for a category in mlp; `auto` follows the column with the "
        "most categories.",
    )


class TabularModel(Shorthand):
    """Which network is trained."""

    source: Literal["builtin"] = "builtin"
    name: Literal["mlp", "linear"] = Field(
        "mlp",
        description="`mlp` has hidden layers; `linear` has none: a weight for each number and each "
        "category.",
    )
    options: TabularOptions = Field(default_factory=TabularOptions)


class TabularTraining(Training):
    """Training of a model of a table: its epochs are cheap, so there are more of them."""

    default_epochs: ClassVar[int] = 40

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 40 if steps is unset."
    )
