"""Start of a text model: its tokenizer, the data set's tokens, and its initial weights.

The tokenizer comes first, because it determines the network's vocabulary. The network is built once
the tokens exist.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redkiln.cells.blanks import lack_blanks
from redkiln.failure import FailureCode
from redkiln.spec.job_weights import is_job
from redkiln.tasks.text_classification import (
    NGRAMS,
    NGRAMS_FIELDS,
    Model,
    Options,
    TextClassificationSpec,
)
from redkiln.views.job import Progress
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.models.backbone import find_head
from worker.trainer.models.from_job import (
    JobCheckpoint,
    describe_initial_weights,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.hub import (
    TOKENIZER,
    PretrainedFiles,
    check_pinned,
    fetch_pretrained,
    hash_files,
)
from worker.trainer.text.network import (
    TextClassifier,
    build_network,
    describe_network,
    describe_pretrained,
    describe_successor,
    load_network,
)
from worker.trainer.text.synthetic import find_end
from worker.trainer.text.table import TextTable
from worker.trainer.text.tokenizer import (
    BLANK_ID,
    FILE,
    KIND,
    PAD_ID,
    load_tokenizer,
    parse_tokenizer,
    train_tokenizer,
)
from worker.trainer.text.tokens import Tokens, open_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LARGEST_AUTO_LENGTH = 256
MOST_CHARACTERS = 1024
"""Tokens that `ngrams` reads by default: about as much text as `LARGEST_AUTO_LENGTH` of others."""
AUTO_NAME = "distilbert"
ENOUGH_TEXTS = 4000
"""Training texts from which `auto` is a transformer. Source: bench.accuracy texts, 2026-11-28."""
SIZES = ("dim", "layers", "heads", "dropout")
"""Options that only transformers have."""
LONGEST_NGRAM = 5
"""Characters of the longest n-gram of `ngrams` in scripts with blanks between words.
Source: bench.accuracy few-texts, 2026-11-29, also for the following."""
LONGEST_OF_FEW, LONGEST_OF_MANY = 2, 3
"""The same in scripts without blanks: few texts would only teach whole phrases."""
MANY_TEXTS = 1000
"""Training texts from which `LONGEST_OF_MANY` applies."""
MOST_READ = 1000
"""Training texts that show whether a script has blanks between words."""
LARGEST_TRAINED_ON = 200_000
"""Most texts to train a tokenizer on; more would give the same vocabulary."""


@dataclass(frozen=True)
class TextStart:
    """A text model before its network is built.

    Attributes:
        model: Resolved model from the spec, without `auto`, with its whole configuration.
        tokens: The data set's tokens.
        folder: Folder of pretrained weights that are still to be loaded, or None.
        job: Job whose weights are still to be loaded, or None.
    """

    model: Model
    tokens: Tokens
    folder: Path | None = None
    job: JobCheckpoint | None = None

    @property
    def reading(self) -> str:
        """The tokenizer as the content of its file (`TrainingSetup.reading`)."""
        return self.tokens.tokenizer_path.read_text(encoding="utf-8")

    def build(self, *, say: Callable[[str], None]) -> TextClassifier:
        """Build the network with its initial weights on the CPU; random ones follow the generator.

        Raises:
            TrainingFailed: configuration and weights contradict each other.
        """
        if self.folder is not None:
            return load_network(self.model.config, self.folder)
        network = build_network(self.model.config)
        if self.job is not None:
            new = take_weights(
                network,
                self.job,
                head=find_head(network),
                remedy="remove the sizes of the network from model.config",
                pointer="/model/config",
            )
            say(describe_initial_weights(self.model.pretrained, new))
        return network


def open_start(
    spec: TextClassificationSpec,
    table: TextTable,
    order: Order,
    *,
    event_log: EventLog,
    reading: str | None = None,
) -> TextStart:
    """Decide on the architecture and tokenise the data set, unless its tokens are cached.

    Args:
        spec: The job's spec; already resolved for an export or in a resumed run.
        table: The texts.
        order: Order of the job.
        event_log: Receives messages about what takes time.
        reading: Reading from the checkpoint that a run resumes from, or that is exported.

    Raises:
        TrainingFailed: the model is not available, or its parts contradict each other.
    """
    model, num_classes = spec.model.model_copy(deep=True), len(table.index.classes)
    if model.pretrained is None:
        return _start_from_scratch(spec, table, order, event_log=event_log, reading=reading)
    if reading is None and is_job(model.pretrained):
        job = open_job_checkpoint(model.pretrained, order)
        model = _derive_from_job(model, job, num_classes=num_classes)
        tokens = _open_given_tokens(
            model, table, order, lambda: _parse(job.reading, model), event_log=event_log
        )
        return TextStart(model, tokens, job=job)
    # A resolved spec that is submitted again loads the weights again.
    is_settled = reading is not None or (order.resume is not None and bool(model.initial_weights))
    files = None if is_settled else _fetch(model, order, event_log)
    if files is not None:
        model.config = describe_pretrained(files.folder, model, num_classes=num_classes)
        model.name = model.config["model_type"]
        origin = files.revision or f"sha256 {_hash(files)}"
        check_pinned(model.initial_weights, origin, name=str(model.pretrained))
        model.initial_weights = origin
        model.options.max_length = _find_max_length(model)

    def build() -> "Tokenizer":
        if reading is not None:
            return _parse(reading, model)
        folder = (files or _fetch(model, order, event_log)).folder
        return load_tokenizer(
            folder, max_length=_max_length(model), pad_id=model.config["pad_token_id"]
        )

    tokens = _open_given_tokens(model, table, order, build, event_log=event_log)
    return TextStart(model, tokens, folder=files.folder if files else None)


def _start_from_scratch(
    spec: TextClassificationSpec,
    table: TextTable,
    order: Order,
    *,
    event_log: EventLog,
    reading: str | None,
) -> TextStart:
    model = spec.model.model_copy(deep=True)
    if model.name == "auto":
        model.name, reason = _choose_name(model, num_train=len(table.rows["train"]))
        event_log.message(f"model: auto is {model.name}, because {reason}")
    if model.name == NGRAMS and "model_type" not in model.config:  # not yet resolved
        model.config = {**_describe_ngrams(table), **model.config}
    has_characters = model.name == NGRAMS and model.config.get("blank_id") is not None
    if model.options.max_length == "auto":
        model.options.max_length = MOST_CHARACTERS if has_characters else LARGEST_AUTO_LENGTH
    fraction = spec.training.validation_fraction
    tokens = _open_own_tokens(
        model,
        table,
        order,
        fraction=fraction,
        has_characters=has_characters,
        event_log=event_log,
        reading=reading,
    )
    model.config = describe_network(
        model,
        max_length=model.options.max_length,
        num_classes=len(table.index.classes),
        vocabulary_size=tokens.facts.vocabulary_size,
    )
    return TextStart(model, replace(tokens, end_id=find_end(model.config)))


def _choose_name(model: Model, *, num_train: int) -> tuple[str, str]:
    """Return what `auto` means, a linear model for few texts or the model of the fields, and why.

    Args:
        model: Model of the spec.
        num_train: Texts of the training split.
    """
    if own := [name for name in model.config if name in NGRAMS_FIELDS]:
        return NGRAMS, f"only it has the field model.config.{own[0]}"
    if num_train >= ENOUGH_TEXTS:
        return AUTO_NAME, f"there are {ENOUGH_TEXTS:,} training texts or more"
    is_described = bool(model.config) or any(
        getattr(model.options, name) != field.default
        for name, field in Options.model_fields.items()
        if name in SIZES
    )
    if is_described:
        return AUTO_NAME, "the spec describes a network"
    return NGRAMS, f"{num_train:,} training texts are fewer than {ENOUGH_TEXTS:,}"


def _describe_ngrams(table: TextTable) -> dict[str, Any]:
    """Return the fields of an `ngrams` of characters for the script and number of texts."""
    train = table.rows["train"]
    longest = LONGEST_NGRAM
    if lack_blanks(list(table.iter_some(train[:MOST_READ]))):
        longest = LONGEST_OF_MANY if len(train) >= MANY_TEXTS else LONGEST_OF_FEW
    return {"blank_id": BLANK_ID, "longest": longest}


def _derive_from_job(model: Model, job: JobCheckpoint, *, num_classes: int) -> Model:
    """Return the other job's model with the spec's changes and a head for these classes."""
    theirs = job.parse_model(Model)
    if model.name not in ("auto", theirs.name):
        message = (
            f"{job.job_id} trained a {theirs.name}, not a {model.name}; remove model.name, or set "
            f"it to {theirs.name}"
        )
        raise refuse_start(message, "/model/name")
    found = theirs.model_copy(deep=True)
    found.pretrained = model.pretrained
    found.initial_weights = job.find_origin(model.initial_weights)
    found.config = describe_successor(theirs.config, model.config, num_classes=num_classes)
    if model.options.max_length != "auto":
        found.options.max_length = model.options.max_length
    return found


def _open_own_tokens(
    model: Model,
    table: TextTable,
    order: Order,
    *,
    fraction: float,
    has_characters: bool,
    event_log: EventLog,
    reading: str | None,
) -> Tokens:
    options = model.options
    assert options.max_length != "auto"
    settings: dict[str, Any] = {
        "vocabulary_size": options.vocabulary_size,
        "max_length": options.max_length,
        "lowercase": options.lowercase,
        "has_characters": has_characters,
    }

    def build() -> "Tokenizer":
        if reading is not None:
            # Training it again would give the same tokenizer.
            return parse_tokenizer(reading, max_length=settings["max_length"], pad_id=PAD_ID)
        event_log.message("training a tokenizer on the training texts")
        train = table.rows["train"]
        step = -(-len(train) // LARGEST_TRAINED_ON)
        return train_tokenizer(table.iter_some(train[::step]), **settings)

    description = {"kind": KIND, **settings, "validation_fraction": fraction}
    return _open(table, order, description, build, event_log)


def _open_given_tokens(
    model: Model,
    table: TextTable,
    order: Order,
    build: "Callable[[], Tokenizer]",
    *,
    event_log: EventLog,
) -> Tokens:
    """Open the tokens of a tokenizer that belongs to pretrained weights."""
    max_length = _max_length(model)
    description = {
        "pretrained": model.pretrained,
        "initial_weights": model.initial_weights,
        "max_length": max_length,
        "pad_id": model.config["pad_token_id"],
    }
    tokens = _open(table, order, description, build, event_log)
    known, needed = model.config["vocab_size"], tokens.facts.vocabulary_size
    if len(tokens.ids) and int(tokens.ids.max()) >= known:
        message = (
            f"the tokenizer of {model.pretrained} has {needed:,} tokens but its network only "
            f"{known:,}; they do not belong together; use the tokenizer.json that came with the "
            "weights"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/pretrained")
    return replace(tokens, end_id=find_end(model.config))


def _open(
    table: TextTable,
    order: Order,
    description: dict[str, Any],
    build: "Callable[[], Tokenizer]",
    event_log: EventLog,
) -> Tokens:
    total = len(table.labels)
    was_made = False

    def on_progress(done: int) -> None:
        nonlocal was_made
        was_made = True
        if event_log.is_progress_due():
            metrics = {"tokenize/texts": float(done), "tokenize/total": float(total)}
            event_log.progress(Progress(metrics=metrics))

    tokens = open_tokens(
        table.iter_blocks,
        fingerprint=table.fingerprint,
        description=description,
        build_tokenizer=build,
        cache_dir=order.paths.cache_dir,
        on_progress=on_progress,
    )
    facts = tokens.facts
    if was_made:
        event_log.message(
            f"tokenised {facts.num_rows:,} texts into {facts.num_tokens:,} tokens; the vocabulary "
            f"has {facts.vocabulary_size:,}"
        )
    return tokens


def _parse(content: str, model: Model) -> "Tokenizer":
    try:
        return parse_tokenizer(
            content, max_length=_max_length(model), pad_id=model.config["pad_token_id"]
        )
    except ValueError as error:
        message = f"the tokenizer of {model.pretrained} cannot be read: {error}"
        raise refuse_start(message) from error


def _max_length(model: Model) -> int:
    assert model.options.max_length != "auto"
    return model.options.max_length


def _fetch(model: Model, order: Order, event_log: EventLog) -> PretrainedFiles:
    assert model.pretrained is not None
    return fetch_pretrained(
        model.pretrained,
        models_dir=order.paths.resolved_models_dir,
        cache_dir=order.paths.cache_dir,
        say=event_log.message,
        also=TOKENIZER,
        pinned=model.initial_weights,
    )


def _find_max_length(model: Model) -> int:
    readable = model.config.get("max_position_embeddings")
    if model.options.max_length != "auto":
        return model.options.max_length
    if isinstance(readable, int) and readable > 0:
        return min(LARGEST_AUTO_LENGTH, readable)
    return LARGEST_AUTO_LENGTH


def _hash(files: PretrainedFiles) -> str:
    tokenizer = files.folder / FILE
    return hash_files((*files.weights, *([tokenizer] if tokenizer.exists() else [])))
