"""mnist-cnn: three small convolutions with batch norm, for grey images of a few dozen pixels."""

import torch
from torch import nn

HIDDEN = 64


class MnistCnn(nn.Module):
    """Convolutions 8-16-24 with batch norm, two poolings, dropout, two linear layers."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_block(channels, 8),
            nn.MaxPool2d(2),
            *_block(8, 16),
            nn.MaxPool2d(2),
            *_block(16, 24),
        )
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(24 * (image_size // 4) ** 2, HIDDEN)
        self.head = nn.Linear(HIDDEN, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        x = self.dropout(self.features(images).flatten(1))  # (B, 24 * (S/4)^2)
        logits: torch.Tensor = self.head(self.dropout(self.hidden(x).relu()))
        return logits


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    # The batch norm that follows would cancel a bias.
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
