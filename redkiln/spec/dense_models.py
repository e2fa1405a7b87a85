"""The networks of detectors and segmenters: where they come from and how a spec names them."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from redkiln.spec.job_weights import check_job, check_pinned, expand_job, is_job
from redkiln.spec.strict import Auto, Shorthand, StrictModel

Channels = Literal[1, 3]
SIZE_STEP = 32
"""The side of an image that a dense network takes is a multiple of this many pixels: the coarsest
stride of its backbone."""


class DenseOptions(StrictModel):
    """The model's input."""

    image_size: Auto | Annotated[int, Field(ge=64, le=1280, multiple_of=SIZE_STEP)] = Field(
        "auto",
        description="Side of the square input in pixels, a multiple of 32. `auto` is the side that "
        "the job in `pretrained` used, otherwise that of the data set's images, rounded up to such "
        "a multiple, and at most 640. A larger side shows smaller things and takes longer.",
    )
    resize: Literal["pad", "stretch"] = Field(
        "pad",
        description="How an image of another shape is fitted to the input: `pad` with black "
        "(letterbox), or `stretch`. Boxes and masks are moved along.",
    )
    channels: Auto | Channels = Field(
        "auto",
        description="1 for grey, 3 for RGB. `auto` is what the job in `pretrained` used, otherwise "
        "what the data set's images have.",
    )


class DenseModel(Shorthand):
    """A network that answers for each place of an image, and the weights that it starts from.

    A string is short for the model's name: `name`, `transformers:<type>`, or `job:<id>`. A subclass
    narrows `name`.

    Attributes:
        largest: Name of the network whose backbone is that of `resnet18`.
        library: Types of transformers that can be trained.
    """

    largest: ClassVar[str]
    library: ClassVar[tuple[str, ...]] = ()

    source: Literal["builtin", "transformers"] = Field(
        "builtin",
        description="Where the architecture comes from: Redkiln's own networks, or the library "
        "transformers; inferred from the name.",
    )
    name: Any = "auto"
    pretrained: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="Weights to start from. `job:<id>`: those of another job. A job of this task "
        "gives all of its weights, except classes that differ. An image classification with "
        "`resnet18` and images of more than 64 pixels gives its backbone to the medium network. "
        "For transformers also `org/name` or `org/name@revision` on the Hugging Face Hub, or a "
        "folder of the worker's models. Without it the weights are random.",
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="For transformers: fields of the model's configuration that differ from those "
        "of the pretrained model, or from a small one without `pretrained`. The resolved spec has "
        "the whole configuration.",
    )
    initial_weights: str | None = Field(
        None,
        description="Exact version of `pretrained` that the worker used: a commit of the hub, or a "
        "sha256. If a submitted spec sets it, any other version is refused.",
    )
    options: DenseOptions = Field(default_factory=DenseOptions)

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return cls.with_source(value)

    @classmethod
    def with_source(cls, value: Any) -> Any:
        """Return a model's fields as written, with the source that its name or weights imply."""
        fields = expand_job(value)
        fields = {"name": fields} if isinstance(fields, str) else fields
        if not isinstance(fields, dict) or "source" in fields:
            return fields
        name, pretrained = fields.get("name", "auto"), fields.get("pretrained")
        prefix, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
        if prefix == "transformers" and colon:
            return {**fields, "source": "transformers", "name": rest}
        is_pretrained = isinstance(pretrained, str) and not is_job(pretrained)
        if name in cls.library or (name == "auto" and is_pretrained):
            return {**fields, "source": "transformers"}
        return fields

    @classmethod
    def fill_training(cls, spec: Any, usual: Mapping[str, Any]) -> Any:
        """Return a spec as written, with the training that a model of transformers needs."""
        if not isinstance(spec, dict):
            return spec
        model, given = cls.with_source(spec.get("model")), spec.get("training", {})
        if not isinstance(model, dict) or not isinstance(given, dict):
            return spec
        if model.get("source") != "transformers":
            return spec
        return {**spec, "training": {**usual, **given}}

    @model_validator(mode="after")
    def _agree(self) -> "DenseModel":
        is_library = self.source == "transformers"
        if is_library and self.name != "auto" and self.name not in self.library:
            raise ValueError(
                f"{self.name} is not a model of transformers; choose {', '.join(self.library)}"
            )
        if is_library and self.name == "auto" and self.pretrained is None:
            raise ValueError("source transformers needs a name or pretrained weights")
        if not is_library and self.name in self.library:
            raise ValueError(f"{self.name} is a model of transformers; remove source")
        if not is_library and self.config:
            raise ValueError("config only applies to models of transformers")
        if not is_library and self.pretrained is not None and not is_job(self.pretrained):
            raise ValueError(
                "built-in networks only start from another job: set pretrained to job:<id>, or "
                f"name a model of transformers: {', '.join(self.library)}"
            )
        return self
