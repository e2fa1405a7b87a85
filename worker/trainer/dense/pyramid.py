"""The feature extractor of detectors and segmenters: a residual backbone and a feature pyramid.

The backbone has the names and shapes of `resnet18` with narrower stages, so the weights of a
trained classifier fit into a network of the same widths.

Shapes: B batch, C channels, S side of the square image in pixels, F width of the pyramid.

Source: Lin et al., Feature Pyramid Networks for Object Detection, arXiv:1612.03144, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from worker.trainer.models.builtin.resnet18 import Block, build_large_stem

STRIDES = (8, 16, 32)
"""Pixels between neighbouring cells of each level of the pyramid."""


class Backbone(nn.Module):
    """Four stages of residual blocks with strides 4, 8, 16 and 32.

    Args:
        channels: Channels of an image.
        widths: Channels of each stage.
        depth: Blocks in each stage.
    """

    def __init__(self, *, channels: int, widths: Sequence[int], depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.stem = build_large_stem(channels, widths[0])
        blocks: list[nn.Module] = []
        width = widths[0]
        for stage, wanted in enumerate(widths):
            blocks.append(Block(width, wanted, stride=2 if stage else 1))
            blocks.extend(Block(wanted, wanted, stride=1) for _ in range(depth - 1))
            width = wanted
        self.stages = nn.Sequential(*blocks)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """(B, C, S, S) -> features of the last three stages, each (B, width, S', S')."""
        return self.find_all(images)[2:]

    def find_all(self, images: torch.Tensor) -> list[torch.Tensor]:
        """(B, C, S, S) -> features with strides 2, 4, 8, 16 and 32; the first has no stage yet."""
        early = self.stem[:-1](images)
        x = self.stem[-1](early)
        found = [early]
        for place, block in enumerate(self.stages):
            x = block(x)
            if (place + 1) % self.depth == 0:
                found.append(x)
        return found


class Pyramid(nn.Module):
    """Adds coarse features to finer ones, so that each level sees context.

    Args:
        widths: Channels of the features that come in, the finest first.
        width: Channels of each level that goes out.
    """

    def __init__(self, widths: Sequence[int], *, width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(convolve(w, width, kernel=1) for w in widths)
        self.smooth = nn.ModuleList(convolve(width, width, kernel=3) for _ in widths)

    def forward(self, features: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Features of each stage -> levels (B, F, S', S'), the finest first."""
        merged: list[torch.Tensor] = []
        for lateral, feature in zip(reversed(self.lateral), reversed(features), strict=True):
            level = lateral(feature)
            if merged:
                level = level + functional.interpolate(merged[-1], scale_factor=2.0)
            merged.append(level)
        return [
            cast("torch.Tensor", smooth(level))
            for smooth, level in zip(self.smooth, reversed(merged), strict=True)
        ]


def convolve(inputs: int, outputs: int, *, kernel: int) -> nn.Sequential:
    """Build a convolution with batch norm and ReLU that keeps the side."""
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


@dataclass(frozen=True)
class BackboneSize:
    """How large a backbone is: the channels of each stage, and the blocks in each."""

    widths: tuple[int, int, int, int]
    depth: int


BACKBONES = {
    "nano": BackboneSize((16, 32, 64, 128), depth=1),
    "small": BackboneSize((32, 64, 128, 256), depth=2),
    "medium": BackboneSize((64, 128, 256, 512), depth=2),
}
"""The built-in backbones. `medium` is that of `resnet18`."""
