"""Job spec v1: what a user asks for.

The parts that tasks share are here; each task adds its own in `redkiln.tasks.<task>` by subclassing
`TrainingSpec`, or `JobSpec` where it trains nothing that is exported. Everything but `dataset` has
a default, and `auto` stays `auto` until a worker resolves it.
"""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

Auto = Literal["auto"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")


def _check_name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise PydanticCustomError(
            "string_pattern_mismatch",
            "a name has 1 to 100 letters, digits, spaces, `.`, `_` or `-` and begins with a letter "
            "or digit",
        )
    return value


Name = Annotated[
    str,
    AfterValidator(_check_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=32),
]


class StrictModel(BaseModel):
    """A part of a spec: unknown fields are errors, numbers are never strings."""

    model_config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )


class Shorthand(StrictModel):
    """A part that may be written as its name alone: `model: resnet18`."""

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Sgd(Shorthand):
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    lr: float = Field(0.05, gt=0, le=100, description="Learning rate at the start.")
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = Field(True, description="Nesterov's momentum; ignored when momentum is 0.")
    weight_decay: float = Field(5e-4, ge=0, le=1)


class AdamW(Shorthand):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    lr: float = Field(2e-3, gt=0, le=100, description="Learning rate at the start.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), strict=False
    )
    weight_decay: float = Field(0.01, ge=0, le=1)


class Muon(Shorthand):
    """Momentum with orthogonal updates for weight matrices and convolutions; AdamW for the rest.

    The rate of both is on AdamW's scale. Source: Jordan et al., kellerjordan.github.io/posts/muon;
    the scale: Liu et al., arXiv:2502.16982, section 2.2.
    """

    name: Literal["muon"] = "muon"
    lr: float = Field(2e-3, gt=0, le=100, description="Learning rate at the start.")
    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = Field(True, description="Nesterov's momentum.")
    weight_decay: float = Field(0.01, ge=0, le=1)


def _optimizer_tag(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("name", "adamw")
    return getattr(value, "name", value)


Optimizer = Annotated[
    Annotated[AdamW, Tag("adamw")] | Annotated[Sgd, Tag("sgd")] | Annotated[Muon, Tag("muon")],
    Discriminator(_optimizer_tag),
]


class Schedule(Shorthand):
    """How the learning rate changes from step to step, after a warm-up."""

    name: Literal["constant", "cosine", "linear", "one-cycle"] = Field(
        "cosine",
        description="`cosine` and `linear` fall to zero at the last step, `constant` stays, "
        "`one-cycle` rises from a 25th of the rate and falls to nearly nothing, both as cosines.",
    )
    warmup_fraction: Auto | Annotated[float, Field(ge=0, le=0.9)] = Field(
        "auto",
        description="Share of all steps in which the rate rises; `auto` is 0.3 for `one-cycle`, "
        "0.1 for `cosine` and `linear` on images and texts, and else none.",
    )


class EarlyStopping(StrictModel):
    """End training when a metric of the validation split has ceased to improve."""

    metric: str = Field("val/loss", description="Which metric; each task has its own.")
    patience: int = Field(5, ge=1, le=10_000, description="Epochs without an improvement.")
    min_delta: float = Field(0.0, ge=0, description="An improvement is larger than this.")


class Training(StrictModel):
    """How the model is trained. Tasks add their own fields (augmentation, say).

    Attributes:
        metrics: what is measured after each epoch, and which way is better.
        default_epochs: where neither epochs nor steps are given.
    """

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/accuracy": "higher",
    }
    default_epochs: ClassVar[int] = 10

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 10 if steps is unset."
    )
    steps: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Optimiser updates, instead of epochs."
    )
    batch_size: Auto | Annotated[int, Field(ge=1, le=65536)] = Field(
        "auto",
        description="Samples in one optimiser step; `auto` measures, and takes the smallest that "
        "is within 5 % of the fastest, of at most 1024 and a 50th of the training samples.",
    )
    accumulation: int = Field(
        1, ge=1, le=1024, description="Micro steps that one optimiser step is made of."
    )
    optimizer: Optimizer = Field(default_factory=AdamW)
    schedule: Schedule = Field(default_factory=Schedule)
    precision: Literal["auto", "fp32", "fp16", "bf16"] = Field(
        "auto",
        description="Compute type of the forward pass; weights stay in float32. Losses are scaled "
        "for fp16, and steps whose gradients overflow are skipped.",
    )
    clip_norm: float | None = Field(
        None, gt=0, description="Largest norm of all gradients together; larger ones are scaled."
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is then scored and exported; "
        "0.99 suits some hundred steps, 0.999 some thousand.",
    )
    early_stopping: EarlyStopping | None = Field(
        None, description="End before the last epoch when a metric has ceased to improve."
    )
    validation_fraction: float = Field(
        0.1,
        ge=0,
        le=0.5,
        description="Share of each class's training samples kept for choosing the best epoch.",
    )
    checkpoint_seconds: float = Field(
        60.0,
        ge=1,
        le=86_400,
        description="Longest time between two checkpoints; one is made after every epoch anyway.",
    )
    keep_checkpoints: int = Field(
        2, ge=1, le=100, description="How many of the newest checkpoints are kept beside the best."
    )
    compile: Literal["auto", "off", "default"] = Field(
        "auto",
        description="`default` trains through torch.compile; `auto` does where training is long "
        "enough for it, and it was measured to be faster with equal numbers.",
    )
    gradient_checkpointing: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Compute activations a second time instead of keeping them; `auto` does when "
        "not even the smallest micro step fits the memory.",
    )
    on_divergence: Literal["stop", "rollback"] = Field(
        "stop",
        description="When a loss is no number any more: stop, or go back to the last good "
        "checkpoint with half the learning rate, at most 3 times.",
    )
    profile: bool = Field(
        False,
        description="Look into a few steps after the first ones: a trace (`trace.json.gz`) and a "
        "table of what takes the time (`profile.md`) come with the job's files.",
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)

    @model_validator(mode="after")
    def _need_one_length(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give epochs or steps, not both")
        if self.epochs is None and self.steps is None:
            self.__dict__["epochs"] = self.default_epochs
        return self

    @model_validator(mode="after")
    def _stop_on_what_is_measured(self) -> Self:
        if self.early_stopping is None:
            return self
        if self.early_stopping.metric not in self.metrics:
            known = ", ".join(self.metrics)
            raise ValueError(f"early_stopping.metric is one of {known}")
        if self.validation_fraction == 0:
            raise ValueError("early_stopping needs a validation_fraction above 0")
        return self


class Export(StrictModel):
    """What the ONNX must be, and how close to the trained model."""

    opset: int = Field(20, ge=18, le=23, description="ONNX operator set of the file.")
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
        description="How much lower the task's metric may be under ONNX Runtime; for a regression "
        "the share by which its error may grow.",
    )
    require_verified: bool = Field(
        False, description="Fail the job, rather than warn, when the export misses its gate."
    )


class Resources(StrictModel):
    """Where the job may run, and for how long."""

    device: Literal["any", "gpu", "cpu"] = Field(
        "any",
        description="`gpu` never trains on a CPU; `any` does only where no worker has a GPU.",
    )
    arch: list[Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]] = Field(
        default_factory=list, description="Allowed GPU architectures (gfx1100, ...); empty: all."
    )
    gpus: int = Field(
        1, ge=1, le=64, description="GPUs of one architecture that the job needs at once."
    )
    allow_fewer: bool = Field(
        False,
        description="Train on one GPU, and say so, where the GPUs turn out not to exchange data; "
        "otherwise the job fails.",
    )
    max_duration_seconds: float | None = Field(
        None, gt=0, description="Running time after which the job is stopped and failed."
    )


class Retry(StrictModel):
    """Two budgets: what the job does wrong, and what happens to its workers."""

    failures: int = Field(2, ge=0, le=100, description="Restarts after a trainer failed.")
    lost_workers: int = Field(10, ge=0, le=1000, description="Restarts after a worker was lost.")


class JobSpec(StrictModel):
    """The parts of a job spec that all tasks share.

    Attributes:
        exports: whether a model follows, which a process of its own exports and checks; the
            trainer of any other task leaves the job's files and its result itself.
        max_gpus: how many GPUs one job of the task can make use of.
        reads_any_dataset: whether data of whatever task will do.
        required: the least that must be written beside the task, with words that stand for it.
    """

    exports: ClassVar[bool] = False
    max_gpus: ClassVar[int] = 1
    reads_any_dataset: ClassVar[bool] = False
    required: ClassVar[dict[str, Any]] = {}

    name: Name | None = Field(None, description="For people and for the output folder's name.")
    task: str
    resources: Resources = Field(default_factory=Resources)
    retry: Retry = Field(default_factory=Retry)
    priority: int = Field(0, ge=-100, le=100, description="Higher runs first; then the older job.")
    metadata: Metadata = Field(default_factory=dict)

    @property
    def dataset_reference(self) -> str | None:
        """The data set by its owner's word; None where the task reads none."""
        return None


class TrainingSpec(JobSpec):
    """A job that trains a model on a data set and exports it."""

    exports: ClassVar[bool] = True
    required: ClassVar[dict[str, Any]] = {"dataset": "name"}
    max_gpus: ClassVar[int] = 64

    dataset: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="A data set's id or name (its newest ready one), or builtin:digits."
    )
    training: Training = Field(default_factory=Training)
    export: Export = Field(default_factory=Export)

    @property
    def dataset_reference(self) -> str | None:
        """The data set by its owner's word."""
        return self.dataset
