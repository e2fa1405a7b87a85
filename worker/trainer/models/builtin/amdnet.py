"""amdnet: two convolutions and one linear layer, small enough to show what a loop costs.

Shapes: B batch, C channels, S side in pixels.
"""

import torch
from torch import nn


class AmdNet(nn.Module):
    """Convolutions 32-64, each with ReLU and 2x2 pooling, then one linear layer."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(64 * (image_size // 4) ** 2, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        x = self.pool(self.conv1(images).relu())  # (B, 32, S/2, S/2)
        x = self.pool(self.conv2(x).relu())  # (B, 64, S/4, S/4)
        logits: torch.Tensor = self.head(x.flatten(1))
        return logits
