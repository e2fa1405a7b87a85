"""The networks of image tasks: where they come from and how a spec names them."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from redkiln.nearest import suggest
from redkiln.spec.job_weights import (
    check_job,
    check_job_file,
    check_pinned,
    is_job,
)
from redkiln.spec.own_code import check_code, check_upload, split_class, uploaded_weights
from redkiln.spec.strict import Auto, Shorthand, StrictModel

_SHA256 = re.compile(r"[0-9a-f]{64}")
Source = Literal["builtin", "transformers", "timm", "job", "onnx", "code"]

SMALL_MODEL = "small-cnn"
LARGE_MODEL = "resnet18"
GREY_MODEL = "mnist-cnn"
GREY_MODEL_SIZE = 32
"""Largest side for which grey images get the network for them."""
LEAST_IMAGES = 2000
"""Training images from which the larger network is considered."""

BUILTIN = ("auto", "amdnet", "cifar-fast", "mnist-cnn", "resnet18", "small-cnn")
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
"""Short names -> model types of transformers; any other model is named by its type."""


class Options(StrictModel):
    """The model's input and a few settings of the network."""

    image_size: Auto | Annotated[int, Field(ge=8, le=512)] = Field(
        "auto",
        description="Side of the square input in pixels. `auto` is the size that a pretrained "
        "model was trained with, otherwise that of the data set's images, but at most 224.",
    )
    resize: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description="How an image of another shape is fitted to the input: `stretch`, centre "
        "`crop`, or `pad` with black.",
    )
    channels: Auto | Literal[1, 3] = Field(
        "auto",
        description="1 for grey, 3 for RGB. `auto` is what a pretrained model was trained with, "
        "otherwise what the data set's images have.",
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout of mnist-cnn; other models ignore it."
    )


class Normalization(StrictModel):
    """What a user's file expects its pixels to be normalised with."""

    mean: list[float] = Field(
        min_length=1, max_length=3, description="Mean of each channel, of pixels from 0 to 1."
    )
    std: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, max_length=3, description="Standard deviation of each channel likewise."
    )

    @model_validator(mode="after")
    def _match(self) -> "Normalization":
        if len(self.mean) != len(self.std):
            raise ValueError("mean and std must have the same number of channels")
        return self


class Model(Shorthand):
    """The network to train, and the weights that it starts from.

    A string is short for the model's name: `name`, `source:name`, `job:<id>`, or `file.py:Class`.
    """

    model_config = ConfigDict(
        validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    source: Source = Field(
        "builtin",
        description="Where the architecture comes from; inferred if the name is known. `job` uses "
        "the architecture of the job in `pretrained`, `onnx` an ONNX file, `code` your own "
        "`nn.Module`.",
    )
    name: str = Field(
        "auto",
        min_length=1,
        max_length=200,
        description="A built-in architecture (`mnist-cnn`, `small-cnn`, `resnet18`, `cifar-fast`, "
        "`amdnet`), a short name or type of transformers (`resnet`, `convnext`, `vit`, ...), "
        "`timm:<name>` or `job:<id>`. `auto` is the architecture of `pretrained` if that is given, "
        "otherwise `mnist-cnn` for grey images of up to 32 pixels and, for others, `resnet18` if a "
        "measured step shows that it trains in about 10 minutes, else `small-cnn`; `quality` may "
        "change it.",
    )
    pretrained: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="Weights to start from: `org/name` or `org/name@revision` on the Hugging Face "
        "Hub, a folder of the worker's models, `job:<id>` for another job's weights, or "
        "`upload:<sha256>` for an uploaded `.pt`, `.safetensors` or `.onnx` file, which "
        "`--pretrained FILE` uploads. With source code a path in the sent folder. Without it the "
        "weights are random.",
    )
    strict: bool = Field(
        True,
        description="Whether the names in an uploaded `pretrained` file must be those of the "
        "network. `false` takes the weights that fit, and a message names the others.",
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="For transformers: fields of the model's configuration that differ from the "
        "defaults of its type or from the pretrained model. For timm: arguments of create_model. "
        "The resolved spec has the whole configuration.",
    )
    initial_weights: str | None = Field(
        None,
        description="Exact version of `pretrained` that the worker used: a commit of the hub, or a "
        "sha256. If a submitted spec sets it, any other version is refused.",
    )
    file: str | None = Field(
        None,
        description="With source onnx: the file to train, as the sha256 of an uploaded ONNX file "
        "as `job:<id>` for another job's `model.onnx`, or as `job:<id>/<name>` for another of its "
        "files. `redkiln train DATA --model net.onnx` "
        "uploads a file. With source code: the Python file in the sent folder.",
    )
    class_: str | None = Field(
        None,
        alias="class",
        max_length=200,
        description="With source code: the class in `file`, a subclass of `torch.nn.Module`.",
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="With source code: arguments of the class by name. `num_classes`, `channels` "
        "and `image_size` are given by the data if the class has them.",
    )
    bundle: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="With source code: sha256 of the uploaded folder, as for scripts."
    )
    loss: str | None = Field(
        None,
        max_length=200,
        description="With source code: a function in `file` of logits (B, classes) and labels (B,) "
        "that returns the mean loss. Without it: cross-entropy.",
    )
    preprocess: str | None = Field(
        None,
        max_length=200,
        description="With source code: a function in `file` that turns images (B, C, S, S) from 0 "
        "to 1 into the network's input. It becomes part of the ONNX file. Without it: images are "
        "normalised by the data set's mean and deviation.",
    )
    weights: Literal["keep", "reset"] = Field(
        "keep",
        description="With source onnx: `keep` trains the file's weights further, `reset` draws "
        "them again: matrices and kernels uniform within 1/sqrt(inputs), biases 0.",
    )
    train: Literal["all", "head"] | Annotated[list[str], Field(min_length=1)] = Field(
        "all",
        description="With source onnx: the weights to train: `all`, the `head` alone, or a list of "
        "names of initialisers, where `*` stands for any text.",
    )
    normalization: Normalization | None = Field(
        None,
        description="With source onnx: what the graph expects its pixels to be normalised with. "
        "It becomes the graph's first two nodes. Without it the graph gets pixels from 0 to 1.",
    )
    interface: Literal["plain", "embedded"] = Field(
        "plain",
        description="What the ONNX files take: `plain` pixels of the model's size from 0 to 1, "
        "`embedded` uint8 photos of any size, which they resize themselves; they then also return "
        "the most probable classes.",
    )
    options: Options = Field(default_factory=Options)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, str):
            own = split_class(value)
            value = {"name": value} if own is None else _own(*own)
        if not isinstance(value, dict):
            return value
        return _with_source(value)

    @field_validator("name")
    @classmethod
    def _know(cls, name: str, info: ValidationInfo) -> str:
        if info.data.get("source") == "builtin" and name not in BUILTIN:
            hint = suggest(name, [*BUILTIN, *TRANSFORMERS])
            message = "unknown model {name}{hint}; write other models with their source: "
            message += "timm:<name>, transformers:<type>"
            raise PydanticCustomError("unknown_name", message, {"name": repr(name), "hint": hint})
        return name

    _check_job = field_validator("pretrained")(check_job)
    _check_upload = field_validator("pretrained")(check_upload)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="after")
    def _agree(self) -> "Model":
        check_code(self)
        _check_file(self)
        is_own = is_job(self.pretrained) or uploaded_weights(self.pretrained) is not None
        if self.source == "job" and not is_job(self.pretrained):
            raise ValueError("with source job, name the job in pretrained: job:<id>")
        if self.source == "builtin" and self.pretrained is not None and not is_own:
            raise ValueError(
                "built-in models can only start from another job's weights (job:<id>) or an "
                "uploaded file (upload:<sha256>); for weights of the hub write source: "
                "transformers or source: timm"
            )
        if self.config and self.source not in ("transformers", "timm"):
            raise ValueError("config only applies to models of transformers and timm")
        if self.source in ("transformers", "timm") and self._is_nameless():
            raise ValueError(
                f"source {self.source} needs the name of a model or its pretrained weights"
            )
        return self

    def _is_nameless(self) -> bool:
        is_random = self.pretrained is None or uploaded_weights(self.pretrained) is not None
        return self.name == "auto" and is_random and "model_type" not in self.config


def _check_file(model: Model) -> None:
    """Check that a file and its options go together.

    Raises:
        ValueError: The file is missing or malformed, or an option needs one.
    """
    if model.source != "onnx":
        usual = model.weights == "keep" and model.train == "all" and model.normalization is None
        if (model.file is not None and model.source != "code") or not usual:
            raise ValueError("file, weights, train and normalization only apply to source onnx")
        return
    if model.file is None or not (_SHA256.fullmatch(model.file) or is_job(model.file)):
        raise ValueError(
            "source onnx needs file: the sha256 of an uploaded ONNX file, job:<id> or "
            "job:<id>/<name>; "
            "redkiln train DATA --model net.onnx uploads a file"
        )
    if is_job(model.file):
        check_job_file(model.file)
    if model.pretrained is not None:
        raise ValueError("a file has its own weights; remove pretrained")


def _with_source(value: dict[str, Any]) -> dict[str, Any]:
    """Return a model's fields with the source implied by a prefix, a known name or the weights."""
    name, pretrained = value.get("name", "auto"), value.get("pretrained")
    if value.get("source") == "code" and name == "auto" and isinstance(value.get("class"), str):
        return {**value, "name": value["class"]}
    if "source" in value or not isinstance(name, str):
        return value
    prefix, colon, rest = name.partition(":")
    if prefix == "job" and colon:
        return {**value, "source": "job", "name": "auto", "pretrained": name}
    if prefix == "onnx" and colon:
        return {**value, "source": "onnx", "name": "auto", "file": rest}
    if colon and prefix in get_args(Source):
        return {**value, "source": prefix, "name": rest}
    if name in TRANSFORMERS:
        return {**value, "source": "transformers"}
    if name == "auto" and isinstance(pretrained, str):
        if uploaded_weights(pretrained) is not None:
            return value
        return {**value, "source": "job" if is_job(pretrained) else "transformers"}
    return value


def _own(file: str, class_name: str) -> dict[str, Any]:
    return {"source": "code", "file": file, "class": class_name}


@dataclass(frozen=True)
class Choice:
    """What `model: auto` is, and the reason for it, as the end of a sentence."""

    name: str
    why: str


def choose_by_data(quality: str, *, size: int, channels: int, num_train: int) -> Choice | None:
    """Choose the network of `model: auto` for images; None if a device must be measured.

    Args:
        quality: `quality` of the spec.
        size: Side of the images in pixels.
        channels: 1 for grey images, 3 for colour.
        num_train: Training images.
    """
    if quality == "best":
        return Choice(LARGE_MODEL, "quality is best")
    if channels == 1 and size <= GREY_MODEL_SIZE:
        return Choice(GREY_MODEL, f"the images are grey and at most {GREY_MODEL_SIZE} pixels large")
    if quality == "fast":
        return Choice(SMALL_MODEL, "quality is fast")
    if num_train < LEAST_IMAGES:
        return Choice(SMALL_MODEL, f"there are fewer than {LEAST_IMAGES:,} training images")
    return None
