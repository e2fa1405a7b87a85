"""AMDNet, as a user writes it: a small convolutional network for images from 16 pixels on.

redkiln train photos.zip --model examples/own_module/amdnet.py:AMDNet
"""

import torch
from torch import nn


class AMDNet(nn.Module):
    """Three convolutions with batch norm and pooling, then two linear layers.

    The job gives `num_classes` and `channels`; `width` comes from `model.arguments`.
    """

    def __init__(self, num_classes: int, channels: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            self._block(channels, width),
            self._block(width, 2 * width),
            self._block(2 * width, 4 * width),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Linear(16 * width, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, num_classes)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, num_classes) logits."""
        logits: torch.Tensor = self.classifier(self.features(images))
        return logits

    @staticmethod
    def _block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
