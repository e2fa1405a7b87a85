"""What tasks that train on images share: colours, memory layout, fine-tuning with int8 rounding."""

from typing import Literal

from pydantic import Field

from redkiln.spec.job_spec import Training
from redkiln.spec.strict import StrictModel

MemoryFormat = Literal["contiguous", "channels_last"]
"""Names of the memory formats in torch."""


class LaidOutTraining(Training):
    """Training of networks whose images and convolutions can have either layout."""

    memory_format: Literal["auto"] | MemoryFormat = Field(
        "auto",
        description="Memory layout of images and convolutions. `auto` measures both layouts if "
        "that takes a small part of the training, and otherwise chooses by device.",
    )


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


class ViewChanges(ColourChanges):
    """Random changes of images whose boxes or masks move along."""

    brightness: float = Field(0.2, ge=0, le=1, description="As for image classification.")
    contrast: float = Field(0.2, ge=0, le=1, description="As for image classification.")
    saturation: float = Field(0.2, ge=0, le=1, description="As for image classification.")
    flip: bool = Field(True, description="Mirror half of the images; not suitable for text.")
    flip_vertical: bool = Field(
        False, description="Turn half of the images upside down, as for pictures from above."
    )
    scale: float = Field(
        0.3,
        ge=0,
        le=3,
        description="Largest change of scale: at 0.3 images become up to 1.3 times larger or "
        "smaller.",
    )
    translate: float = Field(
        0.1, ge=0, le=0.5, description="Largest shift in any direction, as a fraction of the side."
    )
    crop: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Fraction of images that are cropped: a random window, whose side is 40 to "
        "100 % of the image's, is cut out and enlarged to the size of the image.",
    )


class Quantize(StrictModel):
    """A short training after the training, in which the network learns with int8 rounding."""

    epochs: int = Field(
        2, ge=1, le=1000, description="Passes over the training split for `int8-qat`."
    )
    lr: float = Field(
        1e-4, gt=0, le=1, description="Learning rate of this fine-tuning, which uses AdamW."
    )
