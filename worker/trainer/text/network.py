"""Text classifiers from transformers: built from a configuration, or pretrained.

Shapes: B batch, T tokens, C classes.
"""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from redkiln.failure import FailureCode
from redkiln.nearest import suggest
from redkiln.tasks.text_classification import NGRAMS, Model
from worker.process.failed import TrainingFailed
from worker.trainer.text.tokenizer import END, PAD_ID, SPECIAL

ATTENTION = "sdpa"
WIDTHS_OF_INNER = (
    "hidden_dim",
    "intermediate_size",
    "ffn_dim",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "d_ff",
    "n_inner",
)
LAYERS_OF_DECODER = ("decoder_layers", "num_decoder_layers")
WIDTHS_OF_HEAD = ("head_dim", "d_head", "d_kv", "rotary_dim")
DROPOUTS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "seq_classif_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "summary_last_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)
"""Names of dropout fields in transformers' various architectures."""
INNER_FACTOR = 4
SPARE_POSITIONS = 8
"""Positions in addition to those of the longest text, because some architectures start counting
after the padding token."""
NAMES_ONLY = frozenset(
    {"id2label", "label2id", "architectures", "_name_or_path", "problem_type", "dtype"}
)
"""Configuration fields that do not affect a network here."""
OF_TOKENIZER = {"vocab_size", "pad_token_id"}
NOT_ARCHITECTURE = NAMES_ONLY | {"model_type", "transformers_version"}


class TextClassifier(nn.Module):
    """A network from transformers, called with tokens and, if any row is padded, their mask."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network: Any = network

    @property
    def backbone(self) -> nn.Module:
        """All of the network except its head."""
        backbone: nn.Module = self.network.base_model
        return backbone

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute logits.

        Args:
            input_ids: (B, T) int64.
            attention_mask: (B, T) int64, 0 where a row is padded; or (B, 1, 1, T) bool for a
                network that accepts a prepared one (`takes_prepared_mask`).

        Returns:
            Logits (B, C).
        """
        outputs = self.network(input_ids=input_ids, attention_mask=attention_mask)
        logits: torch.Tensor = outputs.logits
        return logits


def describe_network(
    model: Model, *, max_length: int, num_classes: int, vocabulary_size: int
) -> dict[str, Any]:
    """Return the whole configuration of a network to be trained from scratch, as JSON.

    Raises:
        TrainingFailed: transformers has no such architecture, or it has no such field.
    """
    from transformers import AutoConfig

    name, options = model.name, model.options
    _check_architecture(name)
    config = AutoConfig.for_model(name)
    started = {}
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        # t5 requires it, but has the field only if it is passed.
        started["decoder_start_token_id"] = PAD_ID
        config = AutoConfig.for_model(name, **started)
    given = {key: value for key, value in model.config.items() if key not in NOT_ARCHITECTURE}
    asked: dict[str, Any] = {
        "hidden_size": options.dim,
        "num_hidden_layers": options.layers,
        **dict.fromkeys(LAYERS_OF_DECODER, options.layers),
        "num_attention_heads": options.heads,
        "decoder_attention_heads": options.heads,
        "num_key_value_heads": options.heads,
        **dict.fromkeys(WIDTHS_OF_HEAD, options.dim // options.heads),
        "eos_token_id": SPECIAL.index(END),
        "max_position_embeddings": max_length + SPARE_POSITIONS,
        **dict.fromkeys(WIDTHS_OF_INNER, INNER_FACTOR * options.dim),
        **dict.fromkeys(DROPOUTS, options.dropout),
    }
    _check_fields(given, config)
    scratch = AutoConfig.for_model(name)
    fields = {key: value for key, value in asked.items() if _takes(scratch, key, value)}
    fields |= started | given
    fields |= {"vocab_size": vocabulary_size, "pad_token_id": PAD_ID, "num_labels": num_classes}
    try:
        config = AutoConfig.for_model(name, **fields)
    except Exception as error:
        raise _refused(name, error) from error
    return _as_json(config, num_classes=num_classes)


def describe_pretrained(folder: Path, model: Model, *, num_classes: int) -> dict[str, Any]:
    """Return the whole configuration of a pretrained network with a new head, as JSON.

    Raises:
        TrainingFailed: transformers cannot read it or cannot classify texts with it.
    """
    from transformers import AutoConfig

    given = {key: value for key, value in model.config.items() if key not in NOT_ARCHITECTURE}
    try:
        # Not with the spec's fields, because they could allow transformers to run code.
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise _refused(str(folder), error) from error
    _check_architecture(config.model_type)
    if model.name not in ("auto", config.model_type):
        message = (
            f"the pretrained weights are of a {config.model_type}, not of a {model.name}; remove "
            f"model.name, or set it to {config.model_type}"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/name")
    _check_fields(given, config)
    try:
        config = _config_of({**config.to_dict(), **given})
    except Exception as error:
        raise _refused(config.model_type, error) from error
    if config.pad_token_id is None:
        end = config.eos_token_id
        config.pad_token_id = end[0] if isinstance(end, list) else (end or 0)
    return _as_json(config, num_classes=num_classes)


def describe_successor(
    theirs: dict[str, Any], given: dict[str, Any], *, num_classes: int
) -> dict[str, Any]:
    """Return the whole configuration of another job's network with a new head, as JSON.

    Args:
        theirs: The other job's whole configuration.
        given: Fields that the spec changes, such as dropout.
        num_classes: Number of this job's classes.

    Raises:
        TrainingFailed: there is no such field, or the fields contradict each other.
    """
    fixed = NOT_ARCHITECTURE | OF_TOKENIZER
    changed = {key: value for key, value in given.items() if key not in fixed}
    try:
        _check_fields(changed, _config_of(theirs))
        return _as_json(_config_of({**theirs, **changed}), num_classes=num_classes)
    except TrainingFailed:
        raise
    except Exception as error:
        raise _refused(theirs["model_type"], error) from error


def build_network(config: dict[str, Any]) -> TextClassifier:
    """Build a new network; its weights follow torch's global generator.

    Raises:
        TrainingFailed: the configuration is contradictory.
    """
    from transformers import AutoModelForSequenceClassification

    _be_quiet()
    try:
        network = AutoModelForSequenceClassification.from_config(
            _config_of(config), attn_implementation=_attention_of(config)
        )
    except Exception as error:
        raise _refused(config["model_type"], error) from error
    return TextClassifier(network)


def load_network(config: dict[str, Any], folder: Path) -> TextClassifier:
    """Load a network with pretrained weights; its head is new if theirs has other classes.

    Raises:
        TrainingFailed: the weights do not fit the configuration.
    """
    from transformers import AutoModelForSequenceClassification

    _be_quiet()
    try:
        network = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=_config_of(config),
            attn_implementation=_attention_of(config),
            ignore_mismatched_sizes=True,
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
        )
    except Exception as error:
        raise _refused(str(folder), error) from error
    return TextClassifier(network)


def _takes(config: Any, name: str, value: Any) -> bool:
    """Return whether an architecture has a field and accepts a value for it."""
    if not hasattr(config, name):
        return False
    try:
        setattr(config, name, value)
    # Some fields are derived from others, and each architecture reports that with its own error.
    except Exception:  # noqa: BLE001
        return False
    return True


def _check_fields(given: dict[str, Any], config: Any) -> None:
    # A callable is a method, which is not a field either.
    unknown = [key for key in given if callable(getattr(config, key, len))]
    if unknown:
        hint = suggest(unknown[0], config.to_dict())
        message = f"{config.model_type} has no field {unknown[0]!r}{hint}"
        pointer = f"/model/config/{unknown[0]}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)


def _check_architecture(name: str) -> None:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as KNOWN,
    )

    _register_own()
    if name in KNOWN or name == NGRAMS:
        return
    hint = suggest(name, sorted([*KNOWN, NGRAMS]))
    message = f"transformers has no text classifier {name!r}{hint}"
    raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/name")


def _attention_of(config: dict[str, Any]) -> str:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as CLASSES,
    )

    model_class: Any = CLASSES[type(_config_of(config))]
    return ATTENTION if model_class._supports_sdpa else "eager"


def _config_of(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    _register_own()
    return AutoConfig.for_model(**config)


def _register_own() -> None:
    """Let transformers know our own architecture."""
    import worker.trainer.text.ngrams  # noqa: F401


def _as_json(config: Any, *, num_classes: int) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    # The data set has the class names; here they would only be LABEL_0 and so on.
    fields = {key: value for key, value in fields.items() if key not in NAMES_ONLY}
    fields["num_labels"] = num_classes
    if "use_cache" in fields:
        fields["use_cache"] = False
    return fields


def _be_quiet() -> None:
    """Silence transformers, because the trainer reports what it loads itself."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)


def _refused(name: str, error: Exception) -> TrainingFailed:
    reason = " ".join(str(error).split())[:300]
    message = f"transformers cannot build {name}: {reason}; check model and model.config"
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model")
