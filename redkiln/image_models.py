"""Which networks an image task trains: where they come from and how a spec names them."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from redkiln.job_weights import check_job, check_pinned, is_job
from redkiln.nearest import suggest
from redkiln.spec import Auto, Shorthand, StrictModel

Source = Literal["builtin", "transformers", "timm", "job"]

BUILTIN = ("auto", "amdnet", "cifar-fast", "mnist-cnn", "resnet18")
TRANSFORMERS: dict[str, str] = {
    "convnext": "convnext",
    "convnextv2": "convnextv2",
    "deit": "deit",
    "dinov2": "dinov2",
    "efficientnet": "efficientnet",
    "mobilenet-v2": "mobilenet_v2",
    "mobilevit": "mobilevit",
    "regnet": "regnet",
    "resnet": "resnet",
    "resnet50": "resnet",
    "swin": "swin",
    "vit": "vit",
}
"""Short names, and transformers' type of model behind each; by its type any other can be named."""


class Options(StrictModel):
    """What the model is given and a few of its own settings."""

    image_size: Auto | Annotated[int, Field(ge=8, le=512)] = Field(
        "auto",
        description="Side of the square input in pixels; `auto` is what a pretrained model was "
        "made for, else the data set's own size, 224 at most.",
    )
    resize: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description="How an image of another shape is brought to the input size: stretched, "
        "centre-cropped, or padded with black.",
    )
    channels: Auto | Literal[1, 3] = Field(
        "auto",
        description="1 for grey, 3 for RGB; `auto` is what a pretrained model was made for, else "
        "what the data set's images are.",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Of mnist-cnn; the others have none.")


class Model(Shorthand):
    """Which network is trained, and from which weights on.

    As a text it is `name`, `source:name`, or `job:<id>`.
    """

    source: Source = Field(
        "builtin",
        description="Where the architecture comes from; follows from a known name. `job` takes "
        "the architecture of the job in `pretrained`.",
    )
    name: str = Field(
        "auto",
        min_length=1,
        max_length=200,
        description="A built-in architecture (`mnist-cnn`, `amdnet`, `resnet18`, `cifar-fast`), a "
        "short name or type of transformers (`resnet`, `convnext`, `vit`, ...), `timm:<name>` or "
        "`job:<id>`. `auto` is `mnist-cnn` for grey images of up to 32 pixels and otherwise "
        "`resnet18`; with `pretrained` it is the architecture that belongs to the weights.",
    )
    pretrained: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="First weights: `org/name` or `org/name@revision` of the hub, a folder of the "
        "worker's models, or `job:<id>` for the weights of another job; otherwise random.",
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="For transformers: fields of the architecture's configuration that differ from "
        "its defaults or from the pretrained model's; for timm: arguments of `create_model`. The "
        "resolved spec has the whole configuration.",
    )
    initial_weights: str | None = Field(
        None,
        description="Filled in by the worker: the commit of the hub or the sha256 that it took for "
        "`pretrained`. In a submitted spec it pins them: the worker refuses any others.",
    )
    options: Options = Field(default_factory=Options)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict):
            return value
        return _with_source(value)

    @field_validator("name")
    @classmethod
    def _know(cls, name: str, info: ValidationInfo) -> str:
        if info.data.get("source") == "builtin" and name not in BUILTIN:
            hint = suggest(name, [*BUILTIN, *TRANSFORMERS])
            message = "unknown model {name}{hint}; others by their source: timm:<name>, "
            message += "transformers:<type>"
            raise PydanticCustomError("unknown_name", message, {"name": repr(name), "hint": hint})
        return name

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="after")
    def _agree(self) -> "Model":
        if self.source == "job" and not is_job(self.pretrained):
            raise ValueError("a model of source job is named by pretrained: job:<id>")
        if self.source == "builtin" and self.pretrained is not None and not is_job(self.pretrained):
            raise ValueError(
                "built-in models have no pretrained weights but another job's (job:<id>); write "
                "source: transformers or source: timm for those of the hub"
            )
        if self.config and self.source not in ("transformers", "timm"):
            raise ValueError("config is for models of transformers and timm")
        if self.source in ("transformers", "timm") and self._is_nameless():
            raise ValueError(f"name a model of {self.source}, or its pretrained weights")
        return self

    def _is_nameless(self) -> bool:
        return self.name == "auto" and self.pretrained is None and "model_type" not in self.config


def _with_source(value: dict[str, Any]) -> dict[str, Any]:
    """A model's fields with its source said: by a prefix, by a known name, or by its weights."""
    name, pretrained = value.get("name", "auto"), value.get("pretrained")
    if "source" in value or not isinstance(name, str):
        return value
    prefix, colon, rest = name.partition(":")
    if prefix == "job" and colon:
        return {**value, "source": "job", "name": "auto", "pretrained": name}
    if colon and prefix in get_args(Source):
        return {**value, "source": prefix, "name": rest}
    if name in TRANSFORMERS:
        return {**value, "source": "transformers"}
    if name == "auto" and isinstance(pretrained, str):
        return {**value, "source": "job" if is_job(pretrained) else "transformers"}
    return value
