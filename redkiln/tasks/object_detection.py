"""Options and defaults of the task `object-detection`."""

from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from redkiln.spec.dense_models import DenseModel
from redkiln.spec.exports import Export
from redkiln.spec.image_training import LaidOutTraining, ViewChanges
from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.optimizers import AdamW, Optimizer
from redkiln.spec.problems import SpecProblem
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import Auto

NAME: Literal["object-detection"] = "object-detection"

DetectorName = Literal["dense-nano", "dense-small", "dense-medium"]
QueryName = Literal["rf_detr", "rt_detr_v2", "d_fine", "deimv2"]
QUALITY_EPOCHS = {"fast": 20, "best": 120}
QUERY_TRAINING: dict[str, Any] = {
    "optimizer": {"name": "adamw", "lr": 2e-4, "weight_decay": 1e-4},
    "backbone_lr": 0.1,
    "clip_norm": 0.1,
    "compile": "off",
}
"""Training of a detector of transformers, which attention needs: low rates, small gradients."""
QUERY_VARIANTS = {
    "int8-static": "places at the edge of the image have infinite coordinates, for which int8 has "
    "no range"
}
"""Variants that a detector of transformers does not have, with the reason."""


class Detector(DenseModel):
    """The detector to train, and the weights that it starts from.

    A string is short for the model's name: `name`, `transformers:<type>`, or `job:<id>`.
    """

    largest: ClassVar[str] = "dense-medium"
    library: ClassVar[tuple[str, ...]] = get_args(QueryName)

    name: Auto | DetectorName | QueryName = Field(
        "auto",
        description="Size of the detector, or a detector of transformers (`rf_detr`, `rt_detr_v2`, "
        "`d_fine`, `deimv2`). `auto` is that of the weights in `pretrained`; otherwise "
        "`dense-small` on a GPU and `dense-nano` on a CPU, which `quality` may change.",
    )


class DetectionAugment(ViewChanges):
    """Random changes of training images with their boxes, drawn separately for each image.

    A box that is cut keeps its visible part; it is dropped if less than 30 % of it is visible, or
    if a side is shorter than 2 pixels.
    """

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
        description="As for every task, but by default `adamw` with `weight_decay` 0.05. A "
        "detector of transformers has by default `lr` 2e-4 and `weight_decay` 1e-4.",
    )
    backbone_lr: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Learning rate of the backbone as a share of that of the other layers. A "
        "detector of transformers has by default 0.1.",
    )
    clip_norm: float | None = Field(
        10.0,
        gt=0,
        description="Largest norm of all gradients together; larger gradients are scaled down to "
        "it. A detector of transformers has by default 0.1.",
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


class DetectorSpec(TrainingSpec):
    """A job that trains a network to find objects."""

    model: Detector = Field(default_factory=Detector)
    training: DetectionTraining = Field(default_factory=DetectionTraining)
    export: DetectionExport = Field(default_factory=DetectionExport)

    @model_validator(mode="before")
    @classmethod
    def _follow_quality(cls, value: Any) -> Any:
        model: Any = cls.model_fields["model"].annotation
        return with_quality(model.fill_training(value, QUERY_TRAINING), epochs=QUALITY_EPOCHS)

    def find_conflicts(self) -> list[SpecProblem]:
        """Return what a detector of transformers cannot do."""
        found = super().find_conflicts()
        if self.training.optimizer.name == "muon" and self.training.backbone_lr != 1:
            message = "muon trains all layers at one rate; set backbone_lr to 1, or use adamw"
            found.append(SpecProblem("/training/backbone_lr", "not_supported", message))
        if self.model.source == "transformers":
            found += _find_query_conflicts(self)
        return found


class ObjectDetectionSpec(DetectorSpec):
    """A job that trains a detector on images with boxes."""

    starts_from: ClassVar[tuple[str, ...]] = ("image-classification",)

    task: Literal["object-detection"] = NAME


def _find_query_conflicts(spec: DetectorSpec) -> list[SpecProblem]:
    found = [
        SpecProblem(
            f"/export/variants/{place}",
            "not_supported",
            f"{spec.model.name} cannot be exported as {variant.name}, because {reason}; remove it",
        )
        for place, variant in enumerate(spec.export.variants)
        if (reason := QUERY_VARIANTS.get(variant.name)) is not None
    ]
    if spec.training.compile == "default":
        message = f"the loss of {spec.model.name} cannot be compiled; set compile to off"
        found.append(SpecProblem("/training/compile", "not_supported", message))
    return found


SPEC = ObjectDetectionSpec
