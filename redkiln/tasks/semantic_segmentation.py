"""Options and defaults of the task `semantic-segmentation`."""

from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from redkiln.spec.class_weights import ClassifierTraining
from redkiln.spec.dense_models import DenseModel
from redkiln.spec.exports import Export
from redkiln.spec.image_training import LaidOutTraining, ViewChanges
from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.optimizers import AdamW, Optimizer
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import Auto

NAME: Literal["semantic-segmentation"] = "semantic-segmentation"

SegmenterName = Literal["unet-nano", "unet-small", "unet-medium"]
LibraryName = Literal["segformer", "upernet"]
LIBRARY_TRAINING: dict[str, Any] = {
    "optimizer": {"name": "adamw", "lr": 3e-4, "weight_decay": 0.01},
    "clip_norm": 1.0,
}
"""Training of a segmenter of transformers, whose attention and depth need lower rates."""
QUALITY_EPOCHS = {"fast": 15, "best": 100}


class Segmenter(DenseModel):
    """The network to train, and the weights that it starts from.

    A string is short for the model's name: `name`, `transformers:<type>`, or `job:<id>`.
    """

    largest: ClassVar[str] = "unet-medium"
    library: ClassVar[tuple[str, ...]] = get_args(LibraryName)

    name: Auto | SegmenterName | LibraryName = Field(
        "auto",
        description="Size of the network, or a network of transformers (`segformer`, `upernet`). "
        "`auto` is that of the weights in `pretrained`; otherwise "
        "`unet-small` on a GPU and `unet-nano` on a CPU, which `quality` may change.",
    )


class SegmentationAugment(ViewChanges):
    """Random changes of training images with their masks, drawn separately for each image.

    What a view shows beyond its image counts neither in the loss nor in the scores.
    """


class SegmentationTraining(ClassifierTraining, LaidOutTraining):
    """Training of networks that give each pixel a class."""

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/miou": "higher",
        "val/dice": "higher",
        "val/pixel_accuracy": "higher",
    }
    default_epochs: ClassVar[int] = 40

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 40 if steps is unset."
    )
    optimizer: Optimizer = Field(
        default_factory=lambda: AdamW(lr=2e-3, weight_decay=0.01),
        description="As for every task. A network of transformers has by default `lr` 3e-4.",
    )
    clip_norm: float | None = Field(
        10.0,
        gt=0,
        description="Largest norm of all gradients together; larger gradients are scaled down to "
        "it. A network of transformers has by default 1.",
    )
    ema: float | None = Field(
        0.99,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is then scored and exported. "
        "0.99 averages some hundred steps; 0.999 suits trainings of many thousand steps.",
    )
    dice_weight: float = Field(
        1.0,
        ge=0,
        le=10,
        description="How much the Dice loss counts next to the cross-entropy, which counts 1. It "
        "makes small regions count as much as large ones.",
    )
    augment: SegmentationAugment = Field(default_factory=SegmentationAugment)


class SegmentationExport(Export):
    """The ONNX files of a network that gives each pixel a class."""

    max_metric_drop: float = Field(
        0.002,
        ge=0,
        le=1,
        description="How much lower the mean IoU may be under ONNX Runtime.",
    )


class SemanticSegmentationSpec(TrainingSpec):
    """A job that trains a network to give each pixel of an image a class."""

    starts_from: ClassVar[tuple[str, ...]] = ("image-classification",)

    task: Literal["semantic-segmentation"] = NAME
    model: Segmenter = Field(default_factory=Segmenter)
    training: SegmentationTraining = Field(default_factory=SegmentationTraining)
    export: SegmentationExport = Field(default_factory=SegmentationExport)

    @model_validator(mode="before")
    @classmethod
    def _follow_quality(cls, value: Any) -> Any:
        return with_quality(Segmenter.fill_training(value, LIBRARY_TRAINING), epochs=QUALITY_EPOCHS)


SPEC = SemanticSegmentationSpec
