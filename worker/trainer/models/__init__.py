"""The built-in networks. Each takes (B, C, S, S) float32 images and gives (B, classes) logits.

Legend of shapes: B batch, C channels, S side of the square image in pixels.
"""

from typing import Any

from torch import nn

from redkiln.tasks.image_classification import Model
from worker.trainer.models.amdnet import AmdNet
from worker.trainer.models.mnist_cnn import MnistCnn
from worker.trainer.models.resnet18 import ResNet18


def build_model(model: Model, *, num_classes: int) -> nn.Module:
    """A fresh network of a resolved spec; its weights follow torch's global generator."""
    options = model.options
    assert options.image_size != "auto"
    assert options.channels != "auto"
    shape = {"channels": options.channels, "image_size": options.image_size}
    match model.name:
        case "amdnet":
            return AmdNet(**shape, num_classes=num_classes)
        case "mnist-cnn":
            return MnistCnn(**shape, num_classes=num_classes, dropout=options.dropout)
        case "resnet18":
            return ResNet18(**shape, num_classes=num_classes)
        case "auto":
            raise ValueError("the model's name is still auto")


def architecture_of(model: Model, *, num_classes: int) -> dict[str, Any]:
    """What decides a network's graph, as JSON."""
    return {
        "name": model.name,
        "options": model.options.model_dump(),
        "num_classes": num_classes,
    }
