"""small-cnn: a few convolutions with batch norm and the largest value over all positions.

It does not matter to the head where in the picture something is, and the number of weights does not
grow with the picture. So the network learns from a few dozen larger pictures, which amdnet, whose
linear layer has a weight for every position, learns by heart.

Test accuracy of amdnet and this network, default jobs of `python -m bench.accuracy networks`: 66
leaves of 112 pixels 0.43 and 0.95, 200 images of CIFAR-10 0.31 and 0.39, 9,000 of them 0.65 and
0.71. The same jobs with a mean over all positions instead of the largest value: 0.72 for the leaves
(2 seeds), 0.33 for 200 images; with one convolution a stage instead of two: 0.95, 0.37 and 0.63.

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
LEAST_STAGES = 3
"""Stages of the smallest images, of which the last then halve nothing."""


class SmallCnn(nn.Module):
    """Three or four stages, most half as large as the one before, then one linear layer."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int) -> None:
        super().__init__()
        is_large = image_size > LARGE
        side = -(-image_size // 2) if is_large else image_size
        layers: list[nn.Module] = []
        inputs = channels
        for number, width in enumerate(WIDTHS):
            is_halved = side // 2 >= LEAST
            if number >= LEAST_STAGES and not is_halved:
                break
            layers += _convolve(inputs, width, is_large=is_large and number == 0)
            if is_halved:
                layers.append(nn.MaxPool2d(2))
                side //= 2
            if number:
                layers += _convolve(width, width)
            inputs = width
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        features = self.features(images)  # (B, W, S', S') with S' of at least 4
        logits: torch.Tensor = self.head(features.amax(dim=(2, 3)))
        return logits


def _convolve(inputs: int, outputs: int, *, is_large: bool = False) -> list[nn.Module]:
    side, stride = (5, 2) if is_large else (3, 1)
    # The batch norm that follows would cancel a bias.
    convolution = nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
