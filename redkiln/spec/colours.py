"""Random changes of colour, shared by the tasks of images."""

from pydantic import Field

from redkiln.spec.strict import StrictModel


class ColourChanges(StrictModel):
    """Largest random changes of an image's colours."""

    brightness: float = Field(
        0.0, ge=0, le=1, description="Largest change of brightness: 0.2 means 0.8 to 1.2 times."
    )
    contrast: float = Field(
        0.0, ge=0, le=1, description="Largest change of contrast, around an image's mean grey."
    )
    saturation: float = Field(
        0.0, ge=0, le=1, description="Largest change of saturation; no effect on grey images."
    )
    hue: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="Largest shift of hues, as a fraction of the colour circle; no effect on grey "
        "images.",
    )
