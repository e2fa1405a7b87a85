"""Job spec v1: what a user asks for.

This module holds the parts that tasks share. Each task adds its own in `redkiln.tasks.<task>` by
subclassing `TrainingSpec`, or `JobSpec` if it does not train a model to export. Everything except
`dataset` has a default, and `auto` stays `auto` until a worker resolves it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from redkiln.spec.exports import Export
from redkiln.spec.optimizers import AdamW, Optimizer
from redkiln.spec.problems import SpecProblem
from redkiln.spec.quality import Quality
from redkiln.spec.schedule import Cosine, Plateau, Schedule
from redkiln.spec.strict import Auto, StrictModel
from redkiln.spec.written import (
    NAME_PATTERN,
    NAME_RULE,
    is_name,
    normalize_name,
    read_duration,
    read_early_stopping,
    read_list,
)


def _check_name(value: str) -> str:
    name = normalize_name(value)
    if not is_name(name):
        raise PydanticCustomError("string_pattern_mismatch", f"a name must have {NAME_RULE}")
    return name


Name = Annotated[
    str,
    AfterValidator(_check_name),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN}),
]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=32),
]


class EarlyStopping(StrictModel):
    """Stop training when a validation metric no longer improves."""

    metric: str = Field(
        "val/loss",
        description="Metric to watch: `val/loss` or `val/accuracy`; on texts and tables also "
        "`val/macro_f1`; in a regression `val/loss`, `val/rmse`, `val/mae` or `val/r2`; of a "
        "detector `val/loss`, `val/map` or `val/map50`; of masks `val/loss`, `val/miou`, "
        "`val/dice` or `val/pixel_accuracy`.",
    )
    patience: int = Field(5, ge=1, le=10_000, description="Epochs to wait for an improvement.")
    min_delta: float = Field(0.0, ge=0, description="Smallest change that is an improvement.")


class Training(StrictModel):
    """How the model is trained. Tasks add their own fields, such as augmentation.

    Attributes:
        metrics: Metrics measured after each epoch, and whether lower or higher is better.
        default_epochs: Number of epochs if neither epochs nor steps is set.
        grows_when_small: Whether a small training split gets more epochs by default.
        when_small: Other defaults of a small training split, by field.
    """

    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        "val/loss": "lower",
        "val/accuracy": "higher",
    }
    default_epochs: ClassVar[int] = 10
    grows_when_small: ClassVar[bool] = False
    when_small: ClassVar[Mapping[str, StrictModel]] = {}

    epochs: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Passes over the training split; by default, the size of the data decides. "
        "If steps is unset, it is 10, and up to 10 times as many with fewer than 400 training "
        "images or texts.",
    )
    steps: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Optimiser updates; an alternative to epochs."
    )
    batch_size: Auto | Annotated[int, Field(ge=1, le=65536)] = Field(
        "auto",
        description="Samples per optimiser step. `auto` measures several sizes and takes the "
        "smallest one within 5 % of the fastest, up to 1024 and 1/50 of the training samples.",
    )
    accumulation: int = Field(
        1,
        ge=1,
        le=1024,
        description="Micro steps in each optimiser step. Doubled, with a warning, when the device "
        "runs out of memory; the batch size stays the same.",
    )
    optimizer: Optimizer = Field(
        default_factory=AdamW,
        description="`adamw` and `sgd` suit most jobs. `muon` makes orthogonal updates for "
        "matrices and convolutions and uses AdamW for the rest; `lion` and `adafactor` need less "
        "memory than `adamw`.",
    )
    schedule: Schedule = Field(
        default_factory=Cosine,
        description="How the learning rate changes. `cosine` and `linear` fall to zero at the last "
        "step, `constant` stays, `one-cycle` rises from 1/25 of the rate and falls to almost zero, "
        "`step` and `exponential` fall by a factor at the end of epochs, and `plateau` falls when "
        "`val/loss` no longer improves.",
    )
    precision: Literal["auto", "fp32", "fp16", "bf16"] = Field(
        "auto",
        description="Data type of the forward pass; weights stay in float32. `auto` follows the "
        "GPU; on a CPU that multiplies bf16 it takes bf16 if a trial shows it to be faster. With "
        "fp16 the loss is scaled, and steps whose gradients overflow are skipped and counted "
        "(`skipped_steps`).",
    )
    clip_norm: float | None = Field(
        None,
        gt=0,
        description="Largest norm of all gradients together; larger gradients are scaled down to "
        "it.",
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is then scored and exported. "
        "0.99 suits some hundred steps, 0.999 some thousand.",
    )
    early_stopping: EarlyStopping | None = Field(
        None,
        description="Stop before the last epoch when a metric no longer improves. A number is "
        "short for `patience`.",
    )
    validation_fraction: float = Field(
        0.1,
        ge=0,
        le=0.5,
        description="Fraction of each class's training samples used to choose the best epoch: of "
        "images and texts by accuracy, then by loss; of tables by loss, with `class_weights` by "
        "macro F1, or by RMSE; of detectors by mean average precision; of masks by mean IoU. "
        "The data set's seed decides which samples. A data set with its own validation split uses "
        "that one instead.",
    )
    checkpoint_seconds: float = Field(
        60.0,
        ge=1,
        le=86_400,
        description="Longest time between two checkpoints, in seconds or as text such as `10min`. "
        "Each epoch also ends with one.",
    )
    keep_checkpoints: int = Field(
        2, ge=1, le=100, description="Newest checkpoints to keep, in addition to the best one."
    )
    compile: Literal["auto", "off", "default"] = Field(
        "auto",
        description="`default` trains through torch.compile. `auto` does so if training is long "
        "enough to gain from it and a test showed it to be faster with the same numbers.",
    )
    gradient_checkpointing: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Recompute activations instead of keeping them in memory. `auto` does so if "
        "even the smallest micro step does not fit into memory.",
    )
    on_divergence: Literal["stop", "rollback"] = Field(
        "stop",
        description="What to do when the loss is no longer a finite number: `stop`, or `rollback` "
        "to the last good checkpoint with half the learning rate, at most 3 times.",
    )
    profile: bool = Field(
        False,
        description="Profile a few steps near the start. Adds a trace (`trace.json.gz`) and a "
        "table of where the time goes (`profile.md`) to the job's files.",
    )
    seed: int = Field(
        0,
        ge=0,
        le=2**31 - 1,
        description="Seed of all random numbers. The same seed, CPU and thread count repeat a run "
        "exactly.",
    )

    _read_duration = field_validator("checkpoint_seconds", mode="before")(read_duration)
    _read_stopping = field_validator("early_stopping", mode="before")(read_early_stopping)

    @model_validator(mode="after")
    def _need_one_length(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("epochs and steps exclude each other; remove one of them")
        if self.epochs is None and self.steps is None:
            self.__dict__["epochs"] = self.default_epochs
        return self

    @model_validator(mode="after")
    def _stop_on_what_is_measured(self) -> Self:
        if self.early_stopping is None:
            return self
        if self.early_stopping.metric not in self.metrics:
            known = ", ".join(self.metrics)
            raise ValueError(f"early_stopping.metric must be one of {known}")
        if self.validation_fraction == 0:
            raise ValueError(
                "early_stopping needs a validation split; set validation_fraction above 0"
            )
        return self

    @model_validator(mode="after")
    def _follow_what_is_measured(self) -> Self:
        if isinstance(self.schedule, Plateau) and self.validation_fraction == 0:
            raise ValueError(
                "schedule plateau follows val/loss and needs a validation split; set "
                "validation_fraction above 0"
            )
        return self


Engine = Literal["auto", "torch", "tinygrad"]
"""What computes the passes of a network."""


class Resources(StrictModel):
    """Where the job may run, and for how long."""

    device: Literal["any", "gpu", "cpu"] = Field(
        "any",
        description="What the job trains on: `gpu` waits for a GPU, `cpu` uses the processor even "
        "if there is a GPU, and `any` uses a GPU, or the processor if no worker has a GPU.",
    )
    arch: list[Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,32}$")]] = Field(
        default_factory=list,
        max_length=32,  # the claim's index has them, and PostgreSQL's have 2.7 KB for each row
        description="Allowed GPU architectures (gfx1100, ...), one or a list; all if empty.",
    )
    gpus: int = Field(
        1,
        ge=1,
        le=64,
        description="GPUs that the job uses at once, of one worker and one architecture. They "
        "share each batch.",
    )
    allow_fewer: bool = Field(
        False,
        description="If the GPUs turn out to be unable to exchange data, train on one GPU and say "
        "so. Otherwise the job fails as `gpu_links`.",
    )
    engine: Engine = Field(
        "auto",
        description="What computes the passes of the network. `tinygrad` uses any GPU with a "
        "Vulkan or OpenCL driver, in fp32; `auto` is torch.",
    )
    max_duration_seconds: float | None = Field(
        None,
        gt=0,
        description="Running time after which the job is stopped and fails, in seconds or as text "
        "such as `2h`.",
    )

    @property
    def takes_cpu_slot(self) -> bool:
        """Whether the job needs no GPU of torch: tinygrad opens its device itself."""
        return self.device == "cpu" or self.engine == "tinygrad"

    _read_list = field_validator("arch", mode="before")(read_list)
    _read_duration = field_validator("max_duration_seconds", mode="before")(read_duration)


class Retry(StrictModel):
    """Separate limits on restarts: after failures of the job and after losses of its worker."""

    failures: int = Field(2, ge=0, le=100, description="Restarts after the trainer failed.")
    lost_workers: int = Field(10, ge=0, le=1000, description="Restarts after losing a worker.")


class JobSpec(StrictModel):
    """The parts of a job spec that all tasks share.

    Attributes:
        exports: Whether the task trains a model that a separate process exports and checks.
            Otherwise the trainer writes the job's files and its result itself.
        can_fine_tune: Whether the trained model can be fine-tuned for `int8-qat`.
        max_gpus: Largest number of GPUs that a job of the task can use.
        reads_any_dataset: Whether the task accepts data sets of all tasks.
        required: The least that a spec must contain in addition to the task, with placeholders.
    """

    exports: ClassVar[bool] = False
    can_fine_tune: ClassVar[bool] = False
    max_gpus: ClassVar[int] = 1
    reads_any_dataset: ClassVar[bool] = False
    required: ClassVar[dict[str, Any]] = {}

    name: Name | None = Field(
        None,
        description="Name for people, by default after the data set or the task; also names the "
        "folder of downloaded results.",
    )
    task: str
    resources: Resources = Field(default_factory=Resources)
    retry: Retry = Field(default_factory=Retry)
    priority: int = Field(
        0, ge=-100, le=100, description="Higher runs first; at equal priority the older job."
    )
    metadata: Metadata = Field(
        default_factory=dict,
        description="Your own strings by name, at most 32; jobs can be listed by them.",
    )

    @property
    def dataset_reference(self) -> str | None:
        """The data set as the owner named it; None if the task reads no data set."""
        return None

    def find_conflicts(self) -> list[SpecProblem]:
        """Return fields that are valid by themselves but do not go together."""
        return []

    def find_engine_problem(self) -> SpecProblem | None:
        """Return why another engine than torch cannot train the model; None if it can."""
        message = f"{self.task} trains with torch only; remove resources.engine"
        return SpecProblem("/resources/engine", "engine_unsupported", message)


class TrainingSpec(JobSpec):
    """A job that trains a model on a data set and exports it.

    Attributes:
        starts_from: Other tasks whose jobs have weights that a model of this one can start from.
    """

    starts_from: ClassVar[tuple[str, ...]] = ()
    exports: ClassVar[bool] = True
    required: ClassVar[dict[str, Any]] = {"dataset": "name"}
    max_gpus: ClassVar[int] = 64

    dataset: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Data set: its id, its name (the newest valid one), or e.g. builtin:digits.",
    )
    quality: Quality = Field(
        "balanced",
        description="How much time training may take: `fast` trains shorter and a smaller model, "
        "`best` longer and a larger one. It sets fields of `model` and `training`; fields that "
        "the spec sets itself take precedence.",
    )
    training: Training = Field(default_factory=Training)
    export: Export = Field(default_factory=Export)

    @property
    def is_estimator(self) -> bool:
        """Whether the model is not a network of torch, and is trained by its own library."""
        return False

    @property
    def num_folds(self) -> int:
        """Number of folds to cross-validate with; 0 without."""
        return 0

    @property
    def dataset_reference(self) -> str | None:
        """The data set as the owner named it."""
        return self.dataset
