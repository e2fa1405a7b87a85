"""small-cnn: a few convolutions with batch norm and the largest value over all positions.

It does not matter to the head where in the picture something is, and the number of weights does not
grow with the picture. So the network learns from a few dozen larger pictures, which amdnet, whose
linear layer has a weight for every position, learns by heart.

Test accuracy of `python -m bench.accuracy networks`, means of 3 seeds, amdnet, a mean over all
positions, the largest value, and that with two convolutions a stage, which is this network: 66
leaves of 112 pixels 0.43, 0.72, 0.95, 0.95; 1,000 images of CIFAR-10 0.47, 0.44, 0.45, 0.49; all
9,000 of them, one seed, 0.64 (25 s), not tried, 0.63 (39 s), 0.71 (62 s).

Shapes: B batch, C channels, S side in pixels, W channels of the last stage.
"""

import torch
from torch import nn

WIDTHS = (32, 64, 128, 256)
"""Channels of the stages."""
LARGE = 64
"""Side in pixels above which the first convolution is larger and takes every second position."""
LEAST = 4
"""Side in pixels that is not halved any more, so that batch norm sees several values even if a
batch is one image."""


class SmallCnn(nn.Module):
    """One to four stages, each half as large as the one before, then one linear layer."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int) -> None:
        super().__init__()
        is_large = image_size > LARGE
        side = -(-image_size // 2) if is_large else image_size
        layers: list[nn.Module] = []
        inputs = channels
        for width in WIDTHS:
            if side // 2 < LEAST:
                break
            if layers:
                layers += [*_convolve(inputs, width), nn.MaxPool2d(2), *_convolve(width, width)]
            else:
                layers += [*_convolve(inputs, width, is_large=is_large), nn.MaxPool2d(2)]
            inputs, side = width, side // 2
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        features = self.features(images)  # (B, W, S', S') with S' of 4 to 14
        logits: torch.Tensor = self.head(features.amax(dim=(2, 3)))
        return logits


def _convolve(inputs: int, outputs: int, *, is_large: bool = False) -> list[nn.Module]:
    side, stride = (5, 2) if is_large else (3, 1)
    # The batch norm that follows would cancel a bias.
    convolution = nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
