"""Detectors and segmenters of the library transformers: their configuration, network and weights.

Only the library's own classes are built, by their type's name; a repository's code never runs.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch

from redkiln.failure import FailureCode
from redkiln.nearest import suggest
from redkiln.spec.dense_models import DenseModel
from worker.process.failed import TrainingFailed
from worker.trainer.models.from_transformers import NOT_ARCHITECTURE
from worker.trainer.models.hub import PretrainedFiles

LIBRARY = "transformers"
BACKBONE = "backbone_config"


def load_config(model_type: str, fields: Mapping[str, Any], *, num_classes: int) -> Any:
    """Return the library's configuration of some fields.

    Raises:
        TrainingFailed: a value is not valid.
    """
    from transformers import CONFIG_MAPPING

    try:
        return CONFIG_MAPPING[model_type].from_dict({**fields, "num_labels": num_classes})
    # Its validation errors have only this class in common.
    except Exception as error:
        message = f"the configuration of {model_type} is not valid: {error}"
        raise refused(message, "/model/config") from error


def find_type(model: DenseModel, pretrained: Mapping[str, Any] | None) -> str:
    """Return the type of a model, as the library names it.

    Raises:
        TrainingFailed: the pretrained weights are of another type.
    """
    if pretrained is None:
        return str(model.name)
    model_type = str(pretrained.get("model_type"))
    if model_type not in model.library:
        message = (
            f"{model.pretrained} is a {model_type}; this task trains models of the types "
            f"{', '.join(model.library)}"
        )
        raise refused(message, "/model/pretrained")
    if model.name not in ("auto", model_type):
        message = (
            f"the pretrained weights are of a {model_type}, not of a {model.name}; set model.name "
            f"to {model_type}"
        )
        raise refused(message, "/model/name")
    return model_type


def merge_config(
    model: DenseModel, base: Mapping[str, Any], *, model_type: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a configuration with the changes of a spec, and the library's whole usual one.

    A changed backbone of the same type keeps its other fields.

    Raises:
        TrainingFailed: a changed field is unknown.
    """
    known: dict[str, Any] = load_config(model_type, {}, num_classes=1).to_dict()
    for name in model.config:
        if name not in known:
            message = f"{model_type} has no field {name!r}{suggest(name, known)}"
            raise refused(message, f"/model/config/{name}")
    merged = {**base, **model.config}
    ours, theirs = model.config.get(BACKBONE), base.get(BACKBONE)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        kind = ours.get("model_type", theirs.get("model_type"))
        merged[BACKBONE] = {**theirs, **ours} if kind == theirs.get("model_type") else ours
    return merged, known


def finish_config(
    model_type: str, fields: Mapping[str, Any], known: Mapping[str, Any], *, num_classes: int
) -> dict[str, Any]:
    """Return the whole configuration as JSON, without names.

    Raises:
        TrainingFailed: a value is not valid.
    """
    given = {name: value for name, value in fields.items() if name in known}
    config: dict[str, Any] = load_config(model_type, given, num_classes=num_classes).to_dict()
    return _without_names(config)


def build_library(auto_class: Any, model: DenseModel, *, num_classes: int) -> Any:
    """Build the network of a resolved model, with random weights.

    Raises:
        TrainingFailed: the library cannot build it.
    """
    config = load_config(model.config["model_type"], model.config, num_classes=num_classes)
    try:
        return auto_class.from_config(config)
    # A wrong value can cause any error in the code of so many architectures.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"transformers cannot build {model.name} ({reason}); check model.config"
        raise refused(message, "/model/config") from error


def load_library(
    network: Any, files: PretrainedFiles, *, of_classes: re.Pattern[str]
) -> tuple[Any, list[str]]:
    """Load pretrained weights into a copy of a network; layers for other classes stay random.

    Args:
        network: The library's network, with the configuration to keep.
        files: The pretrained model.
        of_classes: Matches names of weights whose shapes depend on the classes.

    Returns:
        The copy, and names of the weights that stay random.

    Raises:
        TrainingFailed: other weights do not fit.
    """
    try:
        loaded, info = type(network).from_pretrained(
            files.folder,
            config=network.config,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError, RuntimeError) as error:
        message = f"the weights in {files.folder} cannot be read: {error}"
        raise refused(message, "/model/pretrained") from error
    new = sorted({*_names(info["mismatched_keys"]), *_names(info["missing_keys"])})
    wrong = [name for name in new if not of_classes.search(name)]
    if wrong:
        message = (
            f"{len(wrong)} pretrained weights do not fit the model, the first is {wrong[0]}; "
            "set model.options.channels to auto, and remove changes from model.config"
        )
        raise refused(message, "/model/config")
    return loaded, new


def refused(message: str, pointer: str) -> TrainingFailed:
    """Return the failure of a job whose model cannot be built."""
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)


def _without_names(config: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in config.items() if name not in NOT_ARCHITECTURE}
    if isinstance(kept.get(BACKBONE), dict):
        kept[BACKBONE] = _without_names(kept[BACKBONE])
    return kept


def _names(items: Any) -> set[str]:
    """Return names of weights; those of another shape are listed with their shapes."""
    return {item if isinstance(item, str) else item[0] for item in items}
