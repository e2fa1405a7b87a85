"""Image classifiers from the library transformers: from a configuration, or with weights too.

Only the library's own classes are built, by their type's name; a repository's code never runs.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from redkiln.failure import FailureCode
from redkiln.nearest import suggest
from redkiln.spec.image_models import TRANSFORMERS, Model
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import PretrainedFiles

NOT_ARCHITECTURE = frozenset(
    {"_name_or_path", "architectures", "dtype", "id2label", "label2id", "transformers_version"}
)
"""Configuration fields that do not affect a network here."""
VISION = "vision_config"
"""Field in which a model of images and texts describes its images."""


class ImageClassifier(nn.Module):
    """A model from transformers that is called with images and returns logits."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    @property
    def backbone(self) -> nn.Module:
        """All of the network except its head."""
        backbone: nn.Module = self.network.base_model
        return backbone

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        logits: torch.Tensor = self.network(pixel_values=images).logits
        return logits


def build_from_transformers(model: Model, *, num_classes: int) -> nn.Module:
    """Build the network of a whole configuration, with random weights."""
    from transformers import AutoModelForImageClassification

    config = _load_config(model.config["model_type"], model.config, num_classes=num_classes)
    # With names here, transformers would choose among several classes of a type by name.
    config.architectures = []
    try:
        network = AutoModelForImageClassification.from_config(config)
    # A wrong value can cause any error in the code of so many architectures.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"transformers cannot build {model.name} ({reason}); check model.config"
        raise _refused(message, "/model/config") from error
    return ImageClassifier(network)


def load_into_transformers(network: nn.Module, files: PretrainedFiles) -> list[str]:
    """Load pretrained weights into a network; a head for other classes stays random.

    Returns:
        Names of the weights that stay random.

    Raises:
        TrainingFailed: weights outside the head do not fit.
    """
    assert isinstance(network, ImageClassifier)
    try:
        loaded, info = type(network.network).from_pretrained(
            files.folder,
            config=network.network.config,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError, RuntimeError) as error:
        message = f"the weights in {files.folder} cannot be read: {error}"
        raise _refused(message, "/model/pretrained") from error
    prefix = f"{loaded.base_model_prefix}."
    other_shapes = sorted(_names(info["mismatched_keys"]))
    missing = sorted(_names(info["missing_keys"]))
    wrong = [name for name in (*other_shapes, *missing) if name.startswith(prefix)]
    if wrong:
        message = (
            f"{len(wrong)} pretrained weights do not fit the model, the first is {wrong[0]}; set "
            "image_size and channels to auto, and remove changes from model.config"
        )
        raise _refused(message, "/model/options/image_size")
    network.network = loaded
    return [*other_shapes, *missing]


def complete_config(
    model: Model,
    pretrained: Mapping[str, Any] | None,
    *,
    image_size: int,
    channels: int,
    num_classes: int,
) -> dict[str, Any]:
    """Return a model's whole configuration for these images.

    Args:
        model: Model from a spec; its `config` holds changes.
        pretrained: Configuration that belongs to the pretrained weights; None without any.
        image_size: Side of the images in pixels.
        channels: Channels of the images.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: there is no such type or field, or the images do not divide into patches.
    """
    model_type = _find_type(model, pretrained)
    known = _load_config(model_type, {}, num_classes=num_classes).to_dict()
    for name in model.config:
        if name not in known:
            hint = suggest(name, known)
            raise _refused(f"{model_type} has no field {name!r}{hint}", f"/model/config/{name}")
    given: dict[str, Any] = {**(pretrained or {}), **model.config}
    sizes = {"image_size": image_size, "num_channels": channels}
    if isinstance(known.get(VISION), dict):
        ours = _vision_of(model.config, f"/model/config/{VISION}")
        theirs = _vision_of(pretrained or {}, "/model/pretrained")
        seen = {k: v for k, v in sizes.items() if k in known[VISION]}
        given[VISION] = {**theirs, **seen, **ours}
    given |= {
        # A few types need one side per direction.
        k: [v] * len(known[k]) if isinstance(known[k], list | tuple) else v
        for k, v in sizes.items()
        if k in known and k not in model.config
    }
    config = _load_config(model_type, given, num_classes=num_classes)
    _check_patches(getattr(config, VISION, config), image_size=image_size)
    return {k: v for k, v in config.to_dict().items() if k not in NOT_ARCHITECTURE}


def _find_type(model: Model, pretrained: Mapping[str, Any] | None) -> str:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES as KNOWN,
    )

    if pretrained is not None:
        model_type = pretrained.get("model_type")
        if not isinstance(model_type, str):
            message = "its config.json has no model_type; for a timm model, set model.source: timm"
            raise _refused(message, "/model/pretrained")
        named = TRANSFORMERS.get(model.name, model.name)
        if named not in ("auto", model_type):
            message = (
                f"the pretrained weights are of a {model_type}, not of a {model.name}; remove "
                f"model.name, or set it to {model_type}"
            )
            raise _refused(message, "/model/name")
    elif model.name == "auto":
        model_type = str(model.config["model_type"])
    else:
        model_type = TRANSFORMERS.get(model.name, model.name)
    if model_type not in KNOWN:
        message = f"transformers has no image classifier of type {model_type!r}"
        raise _refused(message + suggest(model_type, KNOWN), "/model/name")
    return model_type


def _vision_of(config: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    seen = config.get(VISION, {})
    if not isinstance(seen, dict):
        raise _refused(f"{VISION} must be an object of fields, or absent", pointer)
    return seen


def _load_config(model_type: str, fields: Mapping[str, Any], *, num_classes: int) -> Any:
    from transformers import CONFIG_MAPPING

    chosen = {k: v for k, v in fields.items() if k not in NOT_ARCHITECTURE}
    try:
        return CONFIG_MAPPING[model_type].from_dict({**chosen, "num_labels": num_classes})
    # Its validation errors have only this class in common.
    except Exception as error:
        message = f"the configuration of {model_type} is not valid: {error}"
        raise _refused(message, "/model/config") from error


def _check_patches(config: Any, *, image_size: int) -> None:
    patch = getattr(config, "patch_size", None)
    if not isinstance(patch, int) or image_size % patch == 0:
        return
    fitting = [size for size in range(1, image_size + 1) if image_size % size == 0][-6:]
    smaller = max(patch, image_size // patch * patch)
    message = (
        f"images of {image_size} pixels do not divide into patches of {patch} pixels; set "
        f"model.options.image_size to {smaller} or {image_size // patch * patch + patch}, or "
        f"model.config.patch_size to one of {', '.join(map(str, fitting))}"
    )
    raise _refused(message, "/model/options/image_size")


def _names(items: Any) -> set[str]:
    """Return names of weights; those of another shape are listed with their shapes."""
    return {item if isinstance(item, str) else item[0] for item in items}


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
