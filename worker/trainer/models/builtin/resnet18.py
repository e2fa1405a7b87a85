"""resnet18 with a stem that depends on the image size.

Shapes: B batch, C channels, S side in pixels.

Source: He et al., Deep Residual Learning for Image Recognition, arXiv:1512.03385, table 1; the 3x3
stem for small images is that of its section 4.2.
"""

import torch
from torch import nn

SMALL_IMAGE = 64
"""Largest side in pixels that keeps its full resolution in the stem."""


class ResNet18(nn.Module):
    """Four stages of two residual blocks, 64 to 512 channels, then one linear layer."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int) -> None:
        super().__init__()
        self.stem = (
            _small_stem(channels) if image_size <= SMALL_IMAGE else build_large_stem(channels)
        )
        self.stages = nn.Sequential(
            Block(64, 64, stride=1),
            Block(64, 64, stride=1),
            Block(64, 128, stride=2),
            Block(128, 128, stride=1),
            Block(128, 256, stride=2),
            Block(256, 256, stride=1),
            Block(256, 512, stride=2),
            Block(512, 512, stride=1),
        )
        self.head = nn.Linear(512, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        x = self.stages(self.stem(images))  # (B, 512, S', S')
        logits: torch.Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut, which is a projection if the shape changes."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, S, S) -> (B, outputs, S/stride, S/stride)."""
        summed: torch.Tensor = self.body(x) + self.shortcut(x)
        return summed.relu()


def _small_stem(channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU())


def build_large_stem(channels: int, width: int = 64) -> nn.Sequential:
    """Build the layers before the first stage, which divide the side by 4."""
    convolution = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(), pool)
