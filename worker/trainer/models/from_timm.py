"""Image classifiers from the library timm, which also needs torchvision.

They are built by name, so the resolved spec has everything that an export needs.
"""

import importlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from redkiln.failure import FailureCode
from redkiln.nearest import find_nearest
from redkiln.spec.image_models import Model
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import CONFIG, PretrainedFiles

OWN_ARGUMENTS = {
    "cache_dir",
    "checkpoint_path",
    "in_chans",
    "num_classes",
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
}
"""Arguments of create_model that Redkiln sets from the data set and `pretrained`."""


class TimmClassifier(nn.Module):
    """A model from timm."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    @property
    def head(self) -> nn.Module:
        """The last layer of the network."""
        head: nn.Module = self.network.get_classifier()
        return head

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        logits: torch.Tensor = self.network(images)
        return logits


def build_from_timm(
    model: Model, *, num_classes: int, weights: PretrainedFiles | None = None
) -> nn.Module:
    """Build a network from a resolved spec, with random or pretrained weights.

    With pretrained weights, a head for another number of classes is random, and the first layer is
    adapted to another number of channels.

    Raises:
        TrainingFailed: timm or torchvision is missing, or timm has no such model.
    """
    timm = _import_timm()
    start: dict[str, Any] = {}
    if weights is not None:
        if len(weights.weights) > 1:
            message = "timm reads weights from a single file, but these are in several parts"
            raise _refused(message, "/model/pretrained")
        # Pass the file, or timm would download weights from the hub.
        overlay = {"file": str(weights.weights[0]), "hf_hub_id": None, "url": ""}
        overlay |= load_config(weights).get("pretrained_cfg", {}) | {"file": overlay["file"]}
        start = {"pretrained": True, "pretrained_cfg_overlay": overlay}
    try:
        network = timm.create_model(
            model.name,
            num_classes=num_classes,
            in_chans=model.options.channels,
            **model.config,
            **start,
        )
    except (RuntimeError, TypeError, ValueError, AssertionError, KeyError) as error:
        raise _refused(f"timm cannot build {model.name}: {error}", "/model/config") from error
    return TimmClassifier(network)


def complete_arguments(model: Model, *, image_size: int) -> dict[str, Any]:
    """Return the arguments of timm's `create_model` for these images, except channels and classes.

    Raises:
        TrainingFailed: timm or torchvision is missing, or timm has no such model.
    """
    timm = _import_timm()
    if not timm.is_model(model.name):
        hint = find_nearest(model.name, timm.list_models()) or "; timm.list_models() lists them"
        raise _refused(f"timm has no model {model.name!r}{hint}", "/model/name")
    if wrong := sorted(OWN_ARGUMENTS & set(model.config)):
        message = f"Redkiln sets {wrong[0]} itself; set initial weights with model.pretrained"
        raise _refused(message, f"/model/config/{wrong[0]}")
    if "img_size" in model.config:
        return model.config
    sized = {**model.config, "img_size": image_size}
    try:
        with torch.device("meta"):
            timm.create_model(model.name, num_classes=0, **sized)
    except (TypeError, NotImplementedError):
        return model.config  # a convolutional model takes any size and has no such argument
    except (RuntimeError, ValueError, AssertionError) as error:
        message = f"{model.name} cannot be built for images of {image_size} pixels: {error}"
        raise _refused(message, "/model/options/image_size") from error
    return sized


def load_config(files: PretrainedFiles) -> dict[str, Any]:
    """Read the `config.json` of a timm repository."""
    config: dict[str, Any] = json.loads((files.folder / CONFIG).read_bytes())
    return config


def name_of(config: Mapping[str, Any], *, wanted: str) -> str:
    """Return the architecture that pretrained weights belong to.

    Raises:
        TrainingFailed: the weights are not timm's, or not of the wanted architecture.
    """
    name = config.get("architecture")
    if not isinstance(name, str):
        message = "its config.json does not name a timm architecture"
        raise _refused(message, "/model/pretrained")
    if wanted not in ("auto", name):
        message = (
            f"the pretrained weights are of a {name}, not of a {wanted}; remove model.name, or "
            f"set it to {name}"
        )
        raise _refused(message, "/model/name")
    return name


def _import_timm() -> Any:
    try:
        return importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:
        message = (
            f"models from timm need the packages timm and torchvision on the worker ({error}); "
            "install them (docs/models.md), or use a model from transformers"
        )
        raise _refused(message, "/model/source") from error


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
