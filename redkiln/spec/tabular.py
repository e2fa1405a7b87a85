"""The models and the training shared by both tabular tasks."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from redkiln.spec import boosting
from redkiln.spec.job_spec import Training, TrainingSpec
from redkiln.spec.job_weights import check_job, check_pinned, expand_job, is_job
from redkiln.spec.problems import SpecProblem
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import Auto, Shorthand, StrictModel

RECOMMENDED: dict[str, Any] = {"ema": 0.98, "early_stopping": {"patience": 16}}
"""Training fields for tabm, which apply where a spec does not set them. Early stopping also needs a
validation split, and the length and the weights of classes to be the default ones."""
RECOMMENDED_MLP: dict[str, Any] = {"early_stopping": {"patience": 16}}
"""The same for mlp: on six tables this kept the best epoch of all 40, and on three of them it saved
11 to 21 epochs. Source: bench/results/2026-11-24-curves-epyc-2-cores.md."""
RECOMMENDED_LINEAR: dict[str, Any] = {"optimizer": {"lr": 0.02}}
"""The same for linear. In the 440 steps of a table of 340 rows, AdamW moves no weight by more than
0.45 at its own rate of 2e-3. Source: bench/results/2026-11-28-linear.md."""
QUALITY_EPOCHS = {"fast": 12, "best": 120}
QUALITY_MEMBERS = {"fast": 8, "best": 32}
BEST_PATIENCE = {"patience": 32}
_NETWORK_OPTIONS = ("hidden", "dropout", "embedding_size")
OPTIONS = {
    "tabm": (*_NETWORK_OPTIONS, "members", "bins"),
    "mlp": _NETWORK_OPTIONS,
    "linear": (),
    boosting.BOOSTING: boosting.TREE_OPTIONS,
}
"""Fields of `model.options` that each model reads."""
STOPS_OTHERWISE = ("epochs", "steps", "class_weights")

Width = Annotated[int, Field(ge=1, le=16_384)]


class TabularOptions(StrictModel):
    """Settings of the model; ignored if it starts from another job."""

    hidden: list[Width] = Field(
        default_factory=lambda: [128, 64],
        min_length=1,
        max_length=16,
        description="Width of each hidden layer of `tabm` and `mlp`; of tabm by default 128, 128. "
        "With `pretrained`, all options are that job's.",
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout after each hidden layer; of tabm by default 0.2."
    )
    embedding_size: Auto | Annotated[int, Field(ge=1, le=1024)] = Field(
        "auto",
        description="Size of the vector that tabm and mlp learn for each category; `auto` depends "
        "on the largest number of categories in a column.",
    )
    members: int = Field(16, ge=1, le=256, description="Networks that tabm trains side by side.")
    bins: int = Field(
        16,
        ge=1,
        le=256,
        description="Most bins of a number in tabm, with borders at the quantiles of its column.",
    )
    learning_rate: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Factor of each new tree of gradient-boosting. A smaller one needs more "
        "iterations (`training.steps`).",
    )
    leaves: int = Field(
        31, ge=2, le=4096, description="Most leaves of a tree of gradient-boosting."
    )
    min_samples_leaf: int = Field(
        20, ge=1, le=1_000_000, description="Least rows in a leaf of gradient-boosting."
    )
    l2: float = Field(
        0.0, ge=0, le=1e6, description="L2 regularisation of the leaves of gradient-boosting."
    )


class TabularModel(Shorthand):
    """The model to train, and the weights that it starts from.

    A string is short for the model's name: `name`, or `job:<id>`.
    """

    source: Literal["builtin"] = Field("builtin", description="Where the architecture comes from.")
    name: Literal["tabm", "mlp", "linear", "gradient-boosting", "auto"] = Field(
        "tabm",
        description="`tabm` is an ensemble of small networks that share most weights, with numbers "
        "split at quantiles; `mlp` has hidden layers; `linear` has none, only a weight for each "
        "number and each category; `gradient-boosting` is scikit-learn's histogram-based trees, "
        "trained on the CPU. `auto`, the default with `pretrained`, is that job's model.",
    )
    pretrained: str | None = Field(
        None,
        description="Weights to start from: `job:<id>` for those of another job whose table has "
        "the same columns. Without it the weights are random.",
    )
    initial_weights: str | None = Field(
        None,
        description="Exact version of `pretrained` that the worker used: a sha256. If a submitted "
        "spec sets it, any other version is refused.",
    )
    interface: Literal["plain", "embedded"] = Field(
        "plain",
        description="What the ONNX files take: `plain` two arrays, of numbers and of codes, "
        "`embedded` an input for each column, with categories as texts; they then also return the "
        "most probable classes.",
    )
    options: TabularOptions = Field(default_factory=TabularOptions)

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @model_validator(mode="before")
    @classmethod
    def _take_what_the_job_trained(cls, value: Any) -> Any:
        fields = expand_job(value)
        if isinstance(fields, dict) and fields.get("pretrained") is not None:
            return {"name": "auto", **fields}
        return fields

    @model_serializer(mode="wrap")
    def _show_own_options(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the options that the model does not read."""
        fields: dict[str, Any] = dump(self)
        options = fields.get("options")
        if options and self.name in OPTIONS:
            own = OPTIONS[self.name]
            fields["options"] = {name: value for name, value in options.items() if name in own}
        return fields

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.pretrained is not None and not is_job(self.pretrained):
            raise ValueError("pretrained must name another job: job:<id>")
        if self.name == "auto" and self.pretrained is None:
            raise ValueError(
                "name must be tabm, mlp, linear or gradient-boosting, unless pretrained names a job"
            )
        if self.name == "linear" and self.options.hidden != TabularOptions().hidden:
            raise ValueError(
                "a linear model has no hidden layers; remove options.hidden, or set name: mlp"
            )
        if self.name == "tabm":
            chosen = {"hidden": [128, 128], "dropout": 0.2}
            given = self.options.model_fields_set
            self.options.__dict__.update({k: v for k, v in chosen.items() if k not in given})
        return self


class TabularTraining(Training):
    """Training on a table; epochs are cheap, so the default is a larger number of them."""

    default_epochs: ClassVar[int] = 40

    epochs: int | None = Field(
        None, ge=1, le=100_000, description="Passes over the training split; 40 if steps is unset."
    )
    folds: int | None = Field(
        None,
        ge=2,
        le=20,
        description="Cross-validate: train this many more models, each on the training rows "
        "without one fold, and score each on its fold. The exported model is trained on the "
        "training split as usual.",
    )


class TabularSpec(TrainingSpec):
    """A job on a table, with the training that its model needs."""

    model: TabularModel = Field(default_factory=TabularModel)

    @model_validator(mode="before")
    @classmethod
    def _follow_model(cls, value: Any) -> Any:
        value = _with_quality(value)
        return _with_recommended(value) if isinstance(value, dict) else value

    @property
    def is_estimator(self) -> bool:
        """Whether scikit-learn trains the model."""
        return self.model.name == boosting.BOOSTING

    @property
    def num_folds(self) -> int:
        """Number of folds to cross-validate with; 0 without."""
        return getattr(self.training, "folds", None) or 0

    def find_conflicts(self) -> list[SpecProblem]:
        """Return fields that the model does not read, or that folds do not go with."""
        return [
            *self._find_fold_conflicts(),
            *self._find_model_conflicts(),
            *self._find_interface_conflicts(),
        ]

    def find_engine_problem(self) -> SpecProblem | None:
        """Return why another engine than torch cannot train the model; None if it can."""
        if self.model.name in ("tabm", boosting.BOOSTING):
            pointer = "/model/name"
            message = (
                f"tinygrad cannot train {self.model.name}; set model to mlp or linear, or engine "
                "to torch"
            )
        elif self.num_folds:
            pointer, message = "/training/folds", "folds are trained with torch only; remove folds"
        else:
            return None
        return SpecProblem(pointer, "engine_unsupported", message)

    def _find_interface_conflicts(self) -> Iterator[SpecProblem]:
        for place, variant in enumerate(self.export.variants):
            if self.model.interface == "embedded" and variant.io == "float16":
                message = "with interface embedded numbers are float32; remove io"
                yield SpecProblem(f"/export/variants/{place}/io", "io_conflict", message)

    def _find_fold_conflicts(self) -> list[SpecProblem]:
        if self.num_folds and self.model.pretrained is not None:
            message = "folds train from scratch; remove folds or model.pretrained"
        elif self.num_folds and self.resources.gpus > 1:
            message = "folds need a job with one GPU or none; remove folds or resources.gpus"
        else:
            return []
        return [SpecProblem("/training/folds", "folds_conflict", message)]

    def _find_model_conflicts(self) -> list[SpecProblem]:
        if not self.is_estimator:
            return list(boosting.find_tree_options(self.model))
        problems = boosting.find_boosting_problems(
            model=self.model, training=self.training, resources=self.resources
        )
        return [*problems, *boosting.find_variant_problems(self.export)]


def _with_quality(spec: Any) -> Any:
    """Return the spec with the ensemble and the training that its quality stands for."""
    model = expand_job(spec.get("model", "tabm")) if isinstance(spec, dict) else None
    model = {"name": model} if isinstance(model, str) else model
    if not isinstance(model, dict) or model.get("name") == boosting.BOOSTING:
        return spec
    training, quality = spec.get("training", {}), spec.get("quality")
    is_measured = isinstance(training, dict) and training.get("validation_fraction") != 0
    patience = {"best": {"early_stopping": BEST_PATIENCE}} if is_measured else {}
    chosen = with_quality(spec, epochs=QUALITY_EPOCHS, training=patience)
    options = model.get("options", {})
    is_tabm = model.get("name", "tabm") == "tabm" and model.get("pretrained") is None
    if quality not in QUALITY_MEMBERS or not is_tabm or not isinstance(options, dict):
        return chosen
    sized = {"members": QUALITY_MEMBERS[quality], **options}
    return {**chosen, "model": {**model, "options": sized}}


def _with_recommended(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with the recommended training of its model, where it sets none."""
    model, training = expand_job(spec.get("model", "tabm")), spec.get("training", {})
    if isinstance(model, str):
        model = {"name": model}
    if not isinstance(model, dict) or not isinstance(training, dict):
        return spec
    name, resources = model.get("name", "tabm"), spec.get("resources", {})
    by_model = {
        "tabm": RECOMMENDED,
        "mlp": RECOMMENDED_MLP,
        "linear": RECOMMENDED_LINEAR,
        boosting.BOOSTING: boosting.RECOMMENDED,
    }
    if name not in by_model or (name != boosting.BOOSTING and model.get("pretrained") is not None):
        return spec
    chosen = dict(by_model[name])
    is_other = any(training.get(name) is not None for name in STOPS_OTHERWISE)
    if is_other or training.get("validation_fraction") == 0:
        chosen.pop("early_stopping", None)
    if name == boosting.BOOSTING:
        if training.get("epochs") is None and training.get("steps") is None:
            chosen["steps"] = boosting.ITERATIONS
            training = {k: v for k, v in training.items() if k != "steps"}
        if isinstance(resources, dict) and resources.get("device", "any") == "any":
            spec = {**spec, "resources": {**resources, "device": "cpu"}}
    return {**spec, "training": {**chosen, **training}}
