"""Options and defaults of the task `image-classification`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from redkiln.spec.freezing import TunedTraining, check_frozen
from redkiln.spec.image_models import Model, Options
from redkiln.spec.image_training import ColourChanges, LaidOutTraining, Quantize
from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.problems import SpecProblem
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import StrictModel

__all__ = [
    "NAME",
    "SPEC",
    "Augment",
    "ImageClassificationSpec",
    "ImageTraining",
    "Model",
    "Options",
]

NAME: Literal["image-classification"] = "image-classification"


QUALITY_EPOCHS = {"fast": 4, "best": 30}

RECOMMENDED: dict[str, dict[str, Any]] = {
    "cifar-fast": {
        "epochs": 20,
        "batch_size": 128,
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4},
        "schedule": {"name": "one-cycle", "warmup_fraction": 0.2},
        "label_smoothing": 0.2,
        "augment": {"flip": True, "rotate_degrees": 0.0, "crop": 0.0625},
    },
}
"""Training fields recommended for a model, by its name, which apply where a spec does not set them.
Each field of `training` is taken whole, either from here or from the spec, but `augment` field by
field. The dry run and the job's page show them."""


class Augment(ColourChanges):
    """Random changes of training images, drawn separately for each image."""

    flip: bool = Field(
        False, description="Mirror half of the images; not suitable for digits or text."
    )
    rotate_degrees: float = Field(
        10.0, ge=0, le=180, description="Largest rotation in either direction."
    )
    crop: float = Field(
        0.1,
        ge=0,
        le=0.5,
        description="Largest shift in any direction, in whole pixels, as a fraction of the side; "
        "what leaves the image is cut off.",
    )
    scale: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Largest change of scale: at 0.2 images become up to 1.2 times larger or "
        "smaller.",
    )
    shear_degrees: float = Field(
        0.0, ge=0, le=45, description="Largest shear in either direction, of rows and of columns."
    )
    translate: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="Like `crop`, but also by parts of a pixel, which blurs images slightly. Use "
        "it together with rotation or scale, which do so anyway.",
    )
    erase: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Fraction of images in which a box of 2 to 33 % of the area is blacked out.",
    )


class ImageTraining(TunedTraining, LaidOutTraining):
    """Training of image models."""

    grows_when_small: ClassVar[bool] = True
    when_small: ClassVar[Mapping[str, StrictModel]] = {
        "augment": Augment(brightness=0.3, contrast=0.3, saturation=0.3, scale=0.2, crop=0.2)
    }

    augment: Augment = Field(default_factory=Augment)
    quantize: Quantize = Field(
        default_factory=Quantize,
        description="Fine-tuning with int8 rounding after the training, if `export.variants` "
        "contains `int8-qat`.",
    )


OLDEST_EMBEDDED = 18
"""First operator set that resizes as Pillow does, with antialiasing."""


class ImageClassificationSpec(TrainingSpec):
    """A job that trains an image classifier on one folder of images a class."""

    can_fine_tune: ClassVar[bool] = True

    task: Literal["image-classification"] = NAME
    model: Model = Field(default_factory=Model)
    training: ImageTraining = Field(default_factory=ImageTraining)

    @model_validator(mode="after")
    def _freeze_what_was_trained(self) -> Self:
        check_frozen(self.training, pretrained=_find_weights(self.model))
        return self

    def find_conflicts(self) -> list[SpecProblem]:
        """Return what does not go with a user's ONNX file, or with files that prepare photos."""
        found = []
        names = [variant.name for variant in self.export.variants]
        if self.model.source == "onnx" and "int8-qat" in names:
            pointer = f"/export/variants/{names.index('int8-qat')}"
            message = "int8-qat cannot fine-tune the graph of an ONNX file; use int8-static"
            found.append(SpecProblem(pointer, "not_trainable", message))
        if self.model.interface == "plain":
            return found
        if self.model.source == "onnx":
            message = "a trained ONNX file keeps its own inputs; remove model.interface"
            found.append(SpecProblem("/model/interface", "not_for_model", message))
        if self.export.opset < OLDEST_EMBEDDED:
            message = (
                f"interface embedded needs opset {OLDEST_EMBEDDED} or newer; raise export.opset"
            )
            found.append(SpecProblem("/export/opset", "too_old_opset", message))
        for place, variant in enumerate(self.export.variants):
            if variant.io == "float16":
                message = "with interface embedded inputs are uint8; remove io"
                found.append(SpecProblem(f"/export/variants/{place}/io", "io_conflict", message))
        return found

    def find_engine_problem(self) -> SpecProblem | None:
        """Return None: another engine can train images."""
        return None

    @model_validator(mode="before")
    @classmethod
    def _follow_model(cls, value: Any) -> Any:
        value = with_quality(value, epochs=QUALITY_EPOCHS)
        return _with_recommended(value) if isinstance(value, dict) else value


def _find_weights(model: Model) -> str | None:
    """Return what names the trained weights that a model starts from; None if they are random."""
    return model.pretrained or (model.file if model.source == "onnx" else None)


def _with_recommended(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with the recommended settings of its model, where it sets no others."""
    model, training = spec.get("model"), spec.get("training", {})
    name = model.get("name") if isinstance(model, dict) else model
    recommended = RECOMMENDED.get(name.removeprefix("builtin:")) if isinstance(name, str) else None
    if recommended is None or not isinstance(training, dict):
        return spec
    length = {"epochs"} if training.get("steps") is not None else set()
    chosen = {k: v for k, v in recommended.items() if k not in length}
    joined = {**chosen, **training}
    if isinstance(own := training.get("augment"), dict) and own:
        joined["augment"] = {**recommended["augment"], **own}
    return {**spec, "training": joined}


SPEC = ImageClassificationSpec
