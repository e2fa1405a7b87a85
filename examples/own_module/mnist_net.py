"""The usual small network for MNIST: two convolutions, dropout, two linear layers."""

import torch
from torch import nn


class Net(nn.Module):
    """Takes grey images of 28 pixels; another size needs another `image_size`."""

    def __init__(self, num_classes: int, image_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * ((image_size - 4) // 2) ** 2, 128)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 1, S, S) float32 -> (B, num_classes) logits."""
        x = self.conv2(self.conv1(images).relu()).relu()  # (B, 64, S - 4, S - 4)
        x = self.dropout1(nn.functional.max_pool2d(x, 2))
        x = self.dropout2(self.fc1(x.flatten(1)).relu())
        logits: torch.Tensor = self.fc2(x)
        return logits


def preprocess(images: torch.Tensor) -> torch.Tensor:
    """Normalise by the mean and the standard deviation of all of MNIST."""
    return (images - 0.1307) / 0.3081
