"""Options and defaults of the task `instance-segmentation`."""

from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from redkiln.spec.strict import Auto
from redkiln.tasks.object_detection import (
    DetectionExport,
    DetectionTraining,
    Detector,
    DetectorSpec,
)

NAME: Literal["instance-segmentation"] = "instance-segmentation"

InstanceName = Literal["rf_detr"]


class InstanceSegmenter(Detector):
    """The network to train, and the weights that it starts from.

    A string is short for the model's name: `rf_detr`, `transformers:rf_detr`, or `job:<id>`.
    """

    library: ClassVar[tuple[str, ...]] = get_args(InstanceName)

    name: Auto | InstanceName = Field(
        "auto", description="A network of transformers; `auto` is `rf_detr`."
    )

    @classmethod
    def with_source(cls, value: Any) -> Any:
        """Return a model's fields as written, with the library and the only name."""
        fields = super().with_source({} if value is None else value)
        if not isinstance(fields, dict):
            return fields
        name = fields.get("name", "auto")
        usual = {"source": "transformers", "name": get_args(InstanceName)[0]}
        return {**fields, **usual} if name == "auto" else {"source": "transformers", **fields}


class InstanceTraining(DetectionTraining):
    """Training of networks that find objects and their masks."""

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        **DetectionTraining.metrics,
        "val/map75": "higher",
        "val/box_map": "higher",
        "val/box_map50": "higher",
        "val/box_map75": "higher",
    }


class InstanceExport(DetectionExport):
    """The ONNX file of a network that finds objects and their masks."""

    max_metric_drop: float = Field(
        0.002,
        ge=0,
        le=1,
        description="How much lower the mean average precision of masks may be under ONNX Runtime.",
    )


class InstanceSegmentationSpec(DetectorSpec):
    """A job that trains a network to find objects and the pixels of each."""

    task: Literal["instance-segmentation"] = NAME
    model: InstanceSegmenter = Field(default_factory=lambda: InstanceSegmenter(name="rf_detr"))
    training: InstanceTraining = Field(default_factory=InstanceTraining)
    export: InstanceExport = Field(default_factory=InstanceExport)


SPEC = InstanceSegmentationSpec
