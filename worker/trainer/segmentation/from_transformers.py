"""Segmenters of the library transformers: SegFormer, and UPerNet on a convolutional backbone.

Shapes: B batch, C channels, S side in pixels, K classes.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from redkiln.spec.dense_models import DenseModel
from worker.trainer.dense.library import (
    BACKBONE,
    build_library,
    find_type,
    finish_config,
    load_library,
    merge_config,
)
from worker.trainer.models.hub import PretrainedFiles
from worker.trainer.segmentation.network import SegmenterNetwork

OF_CLASSES = re.compile(r"decode_head\.classifier")
"""Names of weights whose shapes depend on the classes."""
SMALL: dict[str, dict[str, Any]] = {
    "upernet": {
        BACKBONE: {
            "model_type": "resnet",
            "layer_type": "basic",
            "hidden_sizes": [64, 128, 256, 512],
            "depths": [2, 2, 2, 2],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        "hidden_size": 256,
    },
}
"""Changes of the library's configuration for random weights; SegFormer's is small already (B0)."""


class LibrarySegmenter(SegmenterNetwork):
    """A segmenter of transformers.

    Args:
        model: A resolved model with its whole configuration.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the library cannot build it.
    """

    def __init__(self, model: DenseModel, *, num_classes: int) -> None:
        from transformers import AutoModelForSemanticSegmentation

        assert model.options.image_size != "auto"
        super().__init__(num_classes=num_classes, image_size=model.options.image_size)
        self.network = build_library(
            AutoModelForSemanticSegmentation, model, num_classes=num_classes
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) normalised -> (B, K, S, S) logits."""
        logits: torch.Tensor = self.network(pixel_values=images).logits
        if logits.shape[-1] == self.image_size:
            return logits
        size = [self.image_size, self.image_size]
        return functional.interpolate(logits, size=size, mode="bilinear", align_corners=False)

    @property
    def last_layer(self) -> nn.Module:
        """The layer whose shape depends on the classes."""
        return cast("nn.Module", self.network.decode_head.classifier)

    def load_pretrained(self, files: PretrainedFiles) -> list[str]:
        """Load pretrained weights, and return the names of those that stay random.

        Raises:
            TrainingFailed: weights outside the last layer do not fit.
        """
        self.network, new = load_library(self.network, files, of_classes=OF_CLASSES)
        return new


def complete_config(
    model: DenseModel, pretrained: Mapping[str, Any] | None, *, num_classes: int
) -> dict[str, Any]:
    """Return a model's whole configuration for these images and classes.

    Args:
        model: Model with its sizes resolved; its `config` holds changes, or all of it.
        pretrained: Configuration that belongs to the pretrained weights; None without any.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the type or a field is unknown, or a value is not valid.
    """
    model_type = find_type(model, pretrained)
    base = SMALL.get(model_type, {}) if pretrained is None else pretrained
    given, known = merge_config(model, base, model_type=model_type)
    channels = {"num_channels": model.options.channels}
    if BACKBONE in known:
        usual = {"model_type": known[BACKBONE]["model_type"]}
        given[BACKBONE] = {**usual, **(given.get(BACKBONE) or {}), **channels}
        # The loss does not use the auxiliary head.
        given["use_auxiliary_head"] = False
    else:
        given |= channels
    return finish_config(model_type, given, known, num_classes=num_classes)
