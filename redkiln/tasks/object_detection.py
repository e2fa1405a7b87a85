"""Options and defaults of the task `object-detection`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from redkiln.spec.exports import Export
from redkiln.spec.image_training import ColourChanges, LaidOutTraining
from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.job_weights import check_job, check_pinned, expand_job
from redkiln.spec.optimizers import AdamW, Optimizer
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import Auto, Shorthand, StrictModel

NAME: Literal["object-detection"] = "object-detection"

Channels = Literal[1, 3]
DetectorName = Literal["dense-nano", "dense-small", "dense-medium"]
SIZE_STEP = 32
"""The side of an image is a multiple of this many pixels: the coarsest stride of a detector."""
QUALITY_EPOCHS = {"fast": 20, "best": 120}


class DetectorOptions(StrictModel):
    """The model's input."""

    image_size: Auto | Annotated[int, Field(ge=64, le=1280, multiple_of=SIZE_STEP)] = Field(
        "auto",
        description="Side of the square input in pixels, a multiple of 32. `auto` is the side that "
        "the job in `pretrained` used, otherwise that of the data set's images, rounded up to such "
        "a multiple, and at most 640. A larger side finds smaller objects and takes longer.",
    )
    resize: Literal["pad", "stretch"] = Field(
        "pad",
        description="How an image of another shape is fitted to the input: `pad` with black "
        "(letterbox), or `stretch`. The boxes are moved along.",
    )
    channels: Auto | Channels = Field(
        "auto",
        description="1 for grey, 3 for RGB. `auto` is what the job in `pretrained` used, otherwise "
        "what the data set's images have.",
    )


class Detector(Shorthand):
    """The detector to train, and the weights that it starts from.

    A string is short for the model's name: `name`, or `job:<id>`.
    """

    source: Literal["builtin"] = Field(
        "builtin", description="Where the architecture comes from: Redkiln's own dense detectors."
    )
    name: Auto | DetectorName = Field(
        "auto",
        description="Size of the detector. `auto` is that of the job in `pretrained`; otherwise "
        "`dense-small` on a GPU and `dense-nano` on a CPU, which `quality` may change.",
    )
    pretrained: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="`job:<id>`: the weights of another job to start from. A detection job gives "
        "all of its weights, except classes that differ. An image classification with `resnet18` "
        "and images of more than 64 pixels gives its backbone to `dense-medium`. Without it the "
        "weights are random.",
    )
    initial_weights: str | None = Field(
        None,
        description="Exact version of `pretrained` that the worker used, a sha256. If a submitted "
        "spec sets it, any other version is refused.",
    )
    options: DetectorOptions = Field(default_factory=DetectorOptions)

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="before")
    @classmethod
    def _expand_job(cls, value: Any) -> Any:
        return expand_job(value)

    @field_validator("pretrained")
    @classmethod
    def _name_a_job(cls, pretrained: str | None) -> str | None:
        if pretrained is not None and not pretrained.startswith("job:"):
            raise ValueError("pretrained must name another job: job:<id>")
        return pretrained


class DetectionAugment(ColourChanges):
    """Random changes of training images with their boxes, drawn separately for each image.

    A box that is cut keeps its visible part; it is dropped if less than 30 % of it is visible, or
    if a side is shorter than 2 pixels.
    """

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
        description="Fraction of images of which a random window is enlarged; its side is 40 to "
        "100 % of the image's.",
    )
    mosaic: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Fraction of images that are combined with three others: a window of 2x2 "
        "images, in which objects become smaller and see other surroundings.",
    )
    mosaic_until: float = Field(
        0.8,
        ge=0,
        le=1,
        description="Share of the training after which no more mosaics are made, so that the last "
        "epochs see images as they are.",
    )


class DetectionTraining(LaidOutTraining):
    """Training of detectors."""

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/map": "higher",
        "val/map50": "higher",
    }
    default_epochs: ClassVar[int] = 50

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 50 if steps is unset."
    )
    optimizer: Optimizer = Field(
        default_factory=lambda: AdamW(lr=2e-3, weight_decay=0.05),
        description="As for every task, but by default `adamw` with `weight_decay` 0.05.",
    )
    clip_norm: float | None = Field(
        10.0,
        gt=0,
        description="Largest norm of all gradients together; larger gradients are scaled down to "
        "it.",
    )
    ema: float | None = Field(
        0.99,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is then scored and exported. "
        "0.99 averages some hundred steps; 0.999 suits trainings of many thousand steps.",
    )
    augment: DetectionAugment = Field(default_factory=DetectionAugment)


class DetectionExport(Export):
    """The ONNX files of a detector."""

    max_metric_drop: float = Field(
        0.002,
        ge=0,
        le=1,
        description="How much lower the mean average precision may be under ONNX Runtime.",
    )


class ObjectDetectionSpec(TrainingSpec):
    """A job that trains a detector on images with boxes."""

    task: Literal["object-detection"] = NAME
    model: Detector = Field(default_factory=Detector)
    training: DetectionTraining = Field(default_factory=DetectionTraining)
    export: DetectionExport = Field(default_factory=DetectionExport)

    @model_validator(mode="before")
    @classmethod
    def _follow_quality(cls, value: Any) -> Any:
        return with_quality(value, epochs=QUALITY_EPOCHS)


SPEC = ObjectDetectionSpec
