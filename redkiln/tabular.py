"""The model and the training of a table, for both tabular tasks."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from redkiln.job_weights import check_job, check_pinned, expand_job, is_job
from redkiln.spec import Auto, Shorthand, StrictModel, Training

Width = Annotated[int, Field(ge=1, le=16_384)]


class TabularOptions(StrictModel):
    """A few of the network's own settings; one that starts from another job has that job's."""

    hidden: list[Width] = Field(
        default_factory=lambda: [128, 64],
        min_length=1,
        max_length=16,
        description="Width of each hidden layer of `mlp`. With `pretrained`, all options are that "
        "job's.",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout after each hidden layer of `mlp`.")
    embedding_size: Auto | Annotated[int, Field(ge=1, le=1024)] = Field(
        "auto",
        description="Length of the vector that `mlp` learns for each category; `auto` follows the "
        "column with the most categories.",
    )


class TabularModel(Shorthand):
    """Which network is trained, and from which weights on.

    As a text it is `name`, or `job:<id>`.
    """

    source: Literal["builtin"] = Field("builtin", description="Where the architecture comes from.")
    name: Literal["mlp", "linear", "auto"] = Field(
        "mlp",
        description="`mlp` has hidden layers; `linear` has one weight for each number and each "
        "category; `auto`, the default with `pretrained`, is what that job trained.",
    )
    pretrained: str | None = Field(
        None,
        description="First weights: `job:<id>` for those of another job on a table with the same "
        "columns; otherwise random.",
    )
    initial_weights: str | None = Field(
        None,
        description="Filled in by the worker: the sha256 that it took for `pretrained`. In a "
        "submitted spec it pins the weights: the worker refuses any others.",
    )
    options: TabularOptions = Field(default_factory=TabularOptions)

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="before")
    @classmethod
    def _take_what_the_job_trained(cls, value: Any) -> Any:
        fields = expand_job(value)
        if isinstance(fields, dict) and fields.get("pretrained") is not None:
            return {"name": "auto", **fields}
        return fields

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.pretrained is not None and not is_job(self.pretrained):
            raise ValueError("a model of a table starts from another job's weights: job:<id>")
        if self.name == "auto" and self.pretrained is None:
            raise ValueError("name a model, mlp or linear, or the job to start from in pretrained")
        return self


class TabularTraining(Training):
    """Training of a model of a table: its epochs are cheap, so there are more of them."""

    default_epochs: ClassVar[int] = 40

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 40 if steps is unset."
    )
