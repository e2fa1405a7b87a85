"""Options and defaults of the task `image-classification`."""

from typing import Annotated, Literal

from pydantic import Field

from redkiln.class_weights import ClassifierTraining
from redkiln.spec import Auto, Shorthand, StrictModel, TrainingSpec

NAME: Literal["image-classification"] = "image-classification"
ModelName = Literal["auto", "mnist-cnn", "amdnet", "resnet18"]


class Options(StrictModel):
    """What the model is given and a few of its own settings."""

    image_size: Auto | Annotated[int, Field(ge=8, le=512)] = Field(
        "auto",
        description="Side of the square input in pixels; `auto` is the data set's own size, 224 at "
        "most.",
    )
    resize: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description="How an image of another shape is brought to the input size: stretched, "
        "centre-cropped, or padded with black.",
    )
    channels: Auto | Literal[1, 3] = Field(
        "auto", description="1 for grey, 3 for RGB; `auto` is what the data set's images are."
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Of mnist-cnn; the others have none.")


class Model(Shorthand):
    """Which network is trained."""

    source: Literal["builtin"] = "builtin"
    name: ModelName = Field(
        "auto",
        description="`auto` takes mnist-cnn for grey images up to 32 pixels, else resnet18.",
    )
    options: Options = Field(default_factory=Options)


class Augment(StrictModel):
    """Random changes of training images, drawn for each sample."""

    flip: bool = Field(False, description="Mirror half of the images; not for digits or text.")
    rotate_degrees: float = Field(
        10.0, ge=0, le=180, description="Largest rotation to either side."
    )
    crop: float = Field(
        0.1, ge=0, le=0.5, description="Largest shift to either side, as a share of the image side."
    )
    scale: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Largest enlargement: at 0.2 images become 1.2 times as large, or as small.",
    )
    shear_degrees: float = Field(
        0.0, ge=0, le=45, description="Largest slant to either side, of rows and of columns."
    )
    translate: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="As crop, and by parts of a pixel: smoother, where pixels are interpolated "
        "anyway.",
    )
    brightness: float = Field(
        0.0, ge=0, le=1, description="Largest change of brightness: 0.2 is 0.8 to 1.2 times."
    )
    contrast: float = Field(
        0.0, ge=0, le=1, description="Largest change of contrast, about an image's mean grey."
    )
    saturation: float = Field(
        0.0, ge=0, le=1, description="Largest change of saturation; of no effect on grey images."
    )
    hue: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="Largest turn of hues, as a share of the colour circle; of no effect on grey "
        "images.",
    )
    erase: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of images in which a box of 2 to 33 % of the image is black.",
    )


class ImageTraining(ClassifierTraining):
    """Training of image models."""

    augment: Augment = Field(default_factory=Augment)


class ImageClassificationSpec(TrainingSpec):
    """A job that trains a classifier on a folder of images a class."""

    task: Literal["image-classification"] = NAME
    model: Model = Field(default_factory=Model)
    training: ImageTraining = Field(default_factory=ImageTraining)
