"""The networks of image tasks: each maps (B, C, S, S) float32 to (B, classes) logits.

A resolved spec contains everything that a network is built from, so an export needs neither the hub
nor the files of the initial weights.

Shapes: B batch, C channels, S side of the square image in pixels.
"""

from typing import Any

from torch import nn

from redkiln.spec.image_models import Model
from worker.trainer.models.builtin.amdnet import AmdNet
from worker.trainer.models.builtin.cifar_fast import CifarFast
from worker.trainer.models.builtin.mnist_cnn import MnistCnn
from worker.trainer.models.builtin.resnet18 import ResNet18
from worker.trainer.models.builtin.small_cnn import SmallCnn


def build_model(model: Model, *, num_classes: int) -> nn.Module:
    """Build a new network from a resolved spec; its weights follow torch's global generator.

    Raises:
        TrainingFailed: the library that it comes from cannot build it.
    """
    match model.source:
        case "transformers":
            from worker.trainer.models.from_transformers import build_from_transformers

            return build_from_transformers(model, num_classes=num_classes)
        case "timm":
            from worker.trainer.models.from_timm import build_from_timm

            return build_from_timm(model, num_classes=num_classes)
        case "builtin":
            return _build_builtin(model, num_classes=num_classes)
        case "job":
            raise ValueError("the job's model is not resolved")
        case "onnx" | "code":
            raise ValueError("a user's network is built by from_onnx or from_code in this folder")


def architecture_of(model: Model, *, num_classes: int) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {
        "source": model.source,
        "name": model.name,
        "config": model.config,
        "options": model.options.model_dump(),
        "num_classes": num_classes,
        **({} if model.file is None else {"file": model.file}),
        **({} if model.bundle is None else _describe_code(model)),
    }


def _describe_code(model: Model) -> dict[str, Any]:
    fields = {"class_", "bundle", "arguments", "preprocess"}
    return model.model_dump(mode="json", include=fields)


def _build_builtin(model: Model, *, num_classes: int) -> nn.Module:
    options = model.options
    assert options.image_size != "auto"
    assert options.channels != "auto"
    shape = {"channels": options.channels, "image_size": options.image_size}
    match model.name:
        case "amdnet":
            return AmdNet(**shape, num_classes=num_classes)
        case "cifar-fast":
            return CifarFast(**shape, num_classes=num_classes)
        case "mnist-cnn":
            return MnistCnn(**shape, num_classes=num_classes, dropout=options.dropout)
        case "resnet18":
            return ResNet18(**shape, num_classes=num_classes)
        case "small-cnn":
            return SmallCnn(**shape, num_classes=num_classes)
        case _:
            raise ValueError(f"there is no built-in model {model.name!r}")
