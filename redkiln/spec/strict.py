"""What every part of a spec is made of."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

Auto = Literal["auto"]
"""A value that a worker chooses."""


class StrictModel(BaseModel):
    """A part of a spec: unknown fields are errors, and strings are not converted to numbers."""

    model_config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )


class Shorthand(StrictModel):
    """A part that can be written as just its name: `model: resnet18`."""

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
