"""The part of a job spec about the ONNX files to write."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from redkiln.spec.strict import Shorthand, StrictModel
from redkiln.spec.written import read_list

ALLOWED_DROPS = {
    "fp32": 0.005,
    "fp16": 0.002,
    "int8-dynamic": 0.01,
    "int8-static": 0.01,
    "int8-qat": 0.005,
}
"""How much worse each variant's metric may be by default."""


class Variant(Shorthand):
    """A further ONNX file of the model, in lower precision."""

    name: Literal["fp32", "fp16", "int8-dynamic", "int8-static", "int8-qat"] = Field(
        description="`fp16` halves the size. `int8-dynamic` has int8 weights; `int8-static` also "
        "int8 activations, whose ranges are found on training samples; `int8-qat` is fine-tuned "
        "with int8 rounding (`training.quantize`), for images alone.",
    )
    max_metric_drop: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How much worse the task's metric may be than under torch, as in "
        "`export.max_metric_drop`. By default 0.002 for `fp16`, 0.005 for `int8-qat` and "
        "0.01 for other int8; `fp32` has `export.max_metric_drop` instead.",
    )

    io: Literal["float32", "float16"] = Field(
        "float32",
        description="Type of the inputs and outputs of `fp16`; other variants have float32. With "
        "`float16` callers must convert, and large numbers of a table become infinite.",
    )

    @model_validator(mode="after")
    def _leave_others_their_own_fields(self) -> Self:
        if self.name == "fp32" and self.max_metric_drop is not None:
            raise ValueError("fp32 has no separate max_metric_drop; set export.max_metric_drop")
        if self.name != "fp16" and self.io == "float16":
            raise ValueError(f"{self.name} has inputs in float32; io: float16 is for fp16")
        return self

    @property
    def allowed_drop(self) -> float:
        """How much worse the metric may be."""
        return ALLOWED_DROPS[self.name] if self.max_metric_drop is None else self.max_metric_drop


class Export(StrictModel):
    """The ONNX files to write, and how closely they must match the trained model."""

    opset: int = Field(
        20,
        ge=16,
        le=23,
        description="ONNX operator set of the files. 16 and 17 are converted from 18, which not "
        "every model allows; the rehearsal before training reports it.",
    )
    tolerance: float = Field(
        1e-3,
        gt=0,
        le=1,
        description="Largest allowed |onnx - torch| relative to the largest |torch| output.",
    )
    max_metric_drop: float = Field(
        0.005,
        ge=0,
        le=1,
        description="How much worse the task's metric may be under ONNX Runtime. For a regression: "
        "the fraction by which the error may grow.",
    )
    require_verified: bool = Field(
        False, description="Fail the job, instead of warning, if a file is not verified."
    )
    slim: bool = Field(
        False,
        description="Clean `model.onnx` up with onnxslim. The cleaned file is kept if it is "
        "smaller and passes the same gate; `model.slim` in `manifest.json` has the figures. "
        "Detectors are not changed.",
    )
    variants: list[Variant] = Field(
        default_factory=lambda: [Variant(name="fp32")],
        max_length=5,
        description="ONNX files to write: `fp32` (always written, as `model.onnx`), `fp16`, "
        "`int8-dynamic`, `int8-static`, `int8-qat`; each is compared with torch and "
        "has its own verdict.",
    )

    _read_variants = field_validator("variants", mode="before")(read_list)

    @field_validator("variants")
    @classmethod
    def _include_fp32_once(cls, variants: list[Variant]) -> list[Variant]:
        names = [variant.name for variant in variants]
        if len(set(names)) < len(names):
            raise ValueError("a variant is listed twice; remove one")
        others = [variant for variant in variants if variant.name != "fp32"]
        return [Variant(name="fp32"), *others]
