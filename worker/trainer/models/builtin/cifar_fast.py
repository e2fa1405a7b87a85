"""cifar-fast: a small residual network after a whitening layer, accurate after few epochs.

The first layer splits 2x2 patches of the training images into uncorrelated components of equal
variance, each with both signs. It is computed from the data once and never trained. Three groups
follow that halve the side, with one residual convolution each, GELU, and a maximum over all
positions. The logits are small at first, which suits high learning rates and label smoothing.

Shapes: B batch, C channels, S side in pixels, P = C * 2 * 2 values of a patch.

Source: D. Page, How to train your ResNet (2018), for whitening, early pooling and scaled logits;
K. Jordan, 94% on CIFAR-10 in 3.29 seconds (arXiv:2404.00498), for patches of 2x2, both signs, GELU
and these widths. No code of either is used.
"""

import torch
from torch import nn
from torch.nn import functional

PATCH = 2
"""Side of the whitened patches in pixels."""
WIDTHS = (32, 128, 256)
LOGIT_SCALE = 1 / 8
MIN_VARIANCE = 5e-4
"""Added to each component's variance, so that mere noise is not amplified."""
FIT_PIXELS = 1_000_000
"""Most pixels of all images that the whitening is computed from, but at least 64 images."""


class CifarFast(nn.Module):
    """Whitening, three groups of widths 64, 256 and 256, and one linear layer."""

    def __init__(self, *, channels: int, image_size: int, num_classes: int) -> None:
        super().__init__()
        self.whitening = Whitening(channels)
        groups: list[nn.Module] = []
        inputs = self.whitening.num_outputs
        side = image_size - PATCH + 1
        for outputs in WIDTHS:
            # An image of 8 pixels has nothing left to halve in the last of three poolings.
            groups.append(Group(inputs, outputs, is_pooled=side > 1))
            inputs, side = outputs, max(1, side // 2)
        self.groups = nn.Sequential(*groups)
        self.head = nn.Linear(inputs, num_classes, bias=False)

    def fit(self, images: torch.Tensor) -> None:
        """Compute the whitening from training images, before training."""
        self.whitening.fit(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 -> (B, classes) logits."""
        x = self.groups(functional.gelu(self.whitening(images)))  # (B, 256, S/8, S/8)
        logits: torch.Tensor = self.head(x.amax(dim=(2, 3)))
        return logits * LOGIT_SCALE


def spread(rows: torch.Tensor, *, image_size: int) -> torch.Tensor:
    """Return evenly spaced rows, as many as `fit` needs, so that all classes are among them."""
    num = min(len(rows), max(64, FIT_PIXELS // image_size**2))
    return rows[torch.linspace(0, len(rows) - 1, num, device=rows.device).round().long()]


class Whitening(nn.Module):
    """Patches as principal components, each divided by its standard deviation, with both signs."""

    weight: torch.Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        num_values = channels * PATCH**2
        self.num_outputs = 2 * num_values
        # Until it is fitted it passes every value of a patch through.
        unit = torch.eye(num_values).view(num_values, channels, PATCH, PATCH)
        self.register_buffer("weight", torch.cat([unit, -unit]))

    def fit(self, images: torch.Tensor) -> None:
        """Compute the components from (N, C, S, S) float32 images as the network receives them."""
        patches = functional.unfold(images.float().contiguous(), PATCH)  # (N, P, positions)
        values = patches.transpose(0, 1).flatten(1)  # (P, N * positions)
        centred = values - values.mean(dim=1, keepdim=True)
        covariance = centred @ centred.T / centred.shape[1]
        variances, parts = torch.linalg.eigh(covariance.double())
        scaled = (parts / (variances.clamp(min=0) + MIN_VARIANCE).sqrt()).T  # one component a row
        kernels = scaled.float().view(-1, *self.weight.shape[1:]).to(self.weight)
        self.weight.copy_(torch.cat([kernels, -kernels]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) -> (B, 2P, S-1, S-1)."""
        return functional.conv2d(images, self.weight)


class Group(nn.Module):
    """A convolution that widens and is pooled, then one with a shortcut around it."""

    def __init__(self, inputs: int, outputs: int, *, is_pooled: bool) -> None:
        super().__init__()
        self.widen = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.pool: nn.Module = nn.MaxPool2d(2) if is_pooled else nn.Identity()
        self.widen_norm = nn.BatchNorm2d(outputs)
        self.refine = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.refine_norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, S, S) -> (B, outputs, S/2, S/2)."""
        x = functional.gelu(self.widen_norm(self.pool(self.widen(x))))
        return x + functional.gelu(self.refine_norm(self.refine(x)))
