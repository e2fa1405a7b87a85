"""Options and defaults of the task `text-classification`."""

from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from redkiln.nearest import MEANT, find_nearest, suggest
from redkiln.spec.freezing import TunedTraining, check_frozen
from redkiln.spec.job_spec import TrainingSpec
from redkiln.spec.job_weights import check_job, check_pinned, expand_job
from redkiln.spec.optimizers import AdamW, Optimizer
from redkiln.spec.quality import with_quality
from redkiln.spec.strict import Auto, Shorthand, StrictModel
from redkiln.spec.tabular import TabularModel

NAME: Literal["text-classification"] = "text-classification"

NGRAMS = "ngrams"
"""Name of the linear model of n-grams, the only architecture that transformers lacks."""
NGRAMS_FIELDS = ("longest", "buckets", "blank_id")
"""Fields of its configuration that no transformer has."""
DISTILBERT_FIELDS = (
    "n_layers", "n_heads", "dim", "hidden_dim", "activation", "dropout", "attention_dropout",
    "qa_dropout", "seq_classif_dropout", "max_position_embeddings", "sinusoidal_pos_embds",
    "initializer_range", "num_hidden_layers", "num_attention_heads", "hidden_size",
    "eos_token_id", "bos_token_id", "tie_word_embeddings",
)  # fmt: skip
"""Fields of distilbert that `ngrams` lacks, also by the names of other architectures."""
SHARED_FIELDS = (
    "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label",
    "is_encoder_decoder", "label2id", "model_type", "num_labels", "output_attentions",
    "output_hidden_states", "pad_token_id", "problem_type", "return_dict", "transformers_version",
    "vocab_size",
)  # fmt: skip
"""Fields of both."""
FROM_SCRATCH_LR = 1e-3
PRETRAINED_LR = 5e-5
"""Settings for fine-tuning a whole pretrained network. Source: Devlin et al., arXiv:1810.04805,
A.3."""
PRETRAINED_EPOCHS = 3
QUALITY_EPOCHS = {"fast": 4, "best": 20}
PRETRAINED_QUALITY_EPOCHS = {"fast": 2, "best": 5}
TABLE_MODELS = {*MEANT, *get_args(TabularModel.model_fields["name"].annotation)} - {"auto"}
"""Names of models that read tables, also in other libraries."""
WELL_KNOWN = (
    "albert", "auto", "bert", "big_bird", "camembert", "convbert", "deberta", "distilbert",
    "electra", "ernie", "flaubert", "funnel", "ibert", "longformer", "mobilebert", "modernbert",
    "modernvbert", "mpnet", NGRAMS, "nystromformer", "reformer", "rembert", "roberta", "roformer",
    "squeezebert", "xlm-roberta", "xlm-roberta-xl", "xlnet",
)  # fmt: skip
"""Names of which typing mistakes are refused at once. The worker checks all of transformers."""
LIKE_A_MISTAKE = 0.86
"""Likeness to a well-known name from which another name is a typing mistake, unless it has digits:
those could be of a newer version."""


class Options(StrictModel):
    """Size and tokenizer of a network trained from scratch; a pretrained one has its own."""

    dim: int = Field(128, ge=8, le=8192, description="Size of each token's vector.")
    layers: int = Field(2, ge=1, le=128, description="Number of attention blocks.")
    heads: int = Field(
        4, ge=1, le=128, description="Attention heads of each block; must divide `dim`."
    )
    vocabulary_size: int = Field(
        8192,
        ge=300,
        le=500_000,
        description="Largest number of distinct tokens. Byte-pair encoding: frequent pairs in the "
        "training texts are merged repeatedly, for `ngrams` only within characters.",
    )
    lowercase: bool = Field(True, description="Convert texts to lower case and remove accents.")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout wherever the architecture supports it."
    )
    max_length: Auto | Annotated[int, Field(ge=4, le=8192)] = Field(
        "auto",
        description="Most tokens to read of a text; longer texts are cut, with a warning that "
        "counts them. `auto` is 256, or the pretrained network's limit if that is lower; 1024 for "
        "`ngrams`, whose tokens are characters.",
    )

    @model_validator(mode="after")
    def _share_out_the_width(self) -> "Options":
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} must be a multiple of heads {self.heads}")
        return self


def _refuse_unknown_field(field: str, info: ValidationInfo) -> str:
    """Refuse a field that no architecture has which `auto` may become."""
    known = (*NGRAMS_FIELDS, *DISTILBERT_FIELDS)
    is_own = info.data.get("name") == "auto" and info.data.get("pretrained") is None
    if is_own and field not in (*known, *SHARED_FIELDS):
        message = "neither ngrams nor distilbert, which `auto` may be, has a field {field}{hint}"
        more = {"field": repr(field), "hint": suggest(field, known)}
        raise PydanticCustomError("unknown_field", message, more)
    return field


class Model(Shorthand):
    """The network to train, and the weights that it starts from.

    A string is short for the model's name: `name`, or `job:<id>`.
    """

    source: Literal["transformers"] = Field(
        "transformers", description="Where the architecture comes from."
    )
    name: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        "auto",
        description="An architecture of transformers for text classification: distilbert, bert, "
        "roberta, electra, ...; or `ngrams`, a linear model of neighbouring characters. `auto` is "
        "the architecture of `pretrained`; otherwise `ngrams` for fewer than 4,000 training texts, "
        "unless the spec describes a network, and distilbert for more. Fields of `ngrams` in "
        "`config` always make it `ngrams`.",
    )
    pretrained: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None,
        description="Weights to start from, with their tokenizer: `org/name` or "
        "`org/name@revision` on the Hugging Face Hub, a folder of the worker's models, or "
        "`job:<id>` for those of another job. Without it the weights are random and a tokenizer "
        "is trained on the training texts.",
    )
    config: dict[Annotated[str, AfterValidator(_refuse_unknown_field)], Any] = Field(
        default_factory=dict,
        description="Fields of the architecture's configuration in transformers; they take "
        "precedence over `options`. `ngrams` has `longest`, the characters of its longest run, and "
        "`buckets`, its rows of weights. The resolved spec has the whole configuration.",
    )
    initial_weights: str | None = Field(
        None,
        description="Exact version of `pretrained` that the worker used: a commit of the hub, or a "
        "sha256. If a submitted spec sets it, any other version is refused.",
    )
    interface: Literal["plain", "embedded"] = Field(
        "plain",
        description="`embedded` also writes `model-text.onnx`, which has the tokenizer inside and "
        "takes texts; it needs the library onnxruntime-extensions. `model.onnx` always takes "
        "tokens.",
    )
    options: Options = Field(default_factory=Options)

    _check_job = field_validator("pretrained")(check_job)
    _check_pinned = field_validator("initial_weights")(check_pinned)

    @field_validator("config")
    @classmethod
    def _refuse_mixtures(cls, config: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        theirs = [name for name in config if name in DISTILBERT_FIELDS]
        own = [name for name in config if name in NGRAMS_FIELDS]
        if theirs and own and info.data.get("name") == "auto":
            message = "only ngrams has a field {own}, and only transformers have {theirs}; keep one"
            more = {"own": repr(own[0]), "theirs": repr(theirs[0])}
            raise PydanticCustomError("mixed_fields", message, more)
        return config

    @field_validator("name")
    @classmethod
    def _refuse_table_models(cls, name: str) -> str:
        if name.lower() in TABLE_MODELS:
            model = MEANT.get(name.lower(), name.lower())
            message = (
                "there is no model {name} for texts; choose auto, ngrams, distilbert, bert, "
                "roberta, electra or another architecture of transformers. To train {model} on "
                "words and other columns, push the table with task=tabular-classification"
            )
            raise PydanticCustomError("unknown_name", message, {"name": repr(name), "model": model})
        return name

    @field_validator("name")
    @classmethod
    def _refuse_typing_mistakes(cls, name: str) -> str:
        if name in WELL_KNOWN or any(map(str.isdigit, name)):
            return name
        if hint := find_nearest(name, WELL_KNOWN, least=LIKE_A_MISTAKE):
            message = "transformers has no text classifier {name}{hint}"
            raise PydanticCustomError("unknown_name", message, {"name": repr(name), "hint": hint})
        return name

    @model_validator(mode="before")
    @classmethod
    def _expand_job(cls, value: Any) -> Any:
        return expand_job(value)


class TextTraining(TunedTraining):
    """Training of text models."""

    grows_when_small: ClassVar[bool] = True
    metrics: ClassVar[dict[str, Literal["lower", "higher"]]] = {
        **TunedTraining.metrics,
        "val/macro_f1": "higher",
    }

    optimizer: Optimizer = Field(
        default_factory=lambda: AdamW(lr=FROM_SCRATCH_LR),
        description="As for every task, but by default `adamw` with `lr` 0.001; with "
        "`model.pretrained`, `lr` 0.00005 for 3 epochs.",
    )


class TextClassificationSpec(TrainingSpec):
    """A job that trains a classifier on texts with one label each."""

    task: Literal["text-classification"] = NAME
    model: Model = Field(default_factory=Model)
    training: TextTraining = Field(default_factory=TextTraining)

    @model_validator(mode="after")
    def _freeze_what_was_trained(self) -> Self:
        check_frozen(self.training, pretrained=self.model.pretrained)
        return self

    @model_validator(mode="before")
    @classmethod
    def _tune_gently(cls, value: Any) -> Any:
        """Fine-tune pretrained models at a small rate for a few epochs, unless the spec differs."""
        model = expand_job(value.get("model")) if isinstance(value, dict) else None
        if not isinstance(model, dict) or model.get("pretrained") is None:
            return with_quality(value, epochs=QUALITY_EPOCHS)
        value = with_quality(value, epochs=PRETRAINED_QUALITY_EPOCHS)
        training = value.get("training", {})
        if not isinstance(training, dict):
            return value
        gentle: dict[str, Any] = {"optimizer": {"name": "adamw", "lr": PRETRAINED_LR}}
        if training.get("steps") is None:
            gentle["epochs"] = PRETRAINED_EPOCHS
        return {**value, "training": {**gentle, **training}}


SPEC = TextClassificationSpec
