"""A dense detector without anchor boxes: every cell of a pyramid predicts one box and its classes.

A cell predicts the distances from its centre to the four sides of a box, each as a distribution
over `BINS` whole multiples of its stride, and one logit for each class. The logit also says how
well the box fits, so a class probability is a box's score.

Shapes: B batch, C channels, S side of the square image in pixels, A cells of all levels, K classes.

Source: Tian et al., FCOS, arXiv:1904.01355 (cells and levels); Li et al., Generalized Focal Loss,
arXiv:2006.04388 (distributions, and scores that include the quality of the box); Lyu et al.,
RTMDet, arXiv:2212.07784 (one head for all levels, with separate batch norms).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from worker.trainer.dense.pyramid import (
    BACKBONES,
    STRIDES,
    Backbone,
    BackboneSize,
    Pyramid,
)
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.selection import Found, select_boxes

BINS = 16
"""Distances that a side's distribution covers: 0 to 15 strides, so up to 480 pixels."""
SIZE_STEP = STRIDES[-1]
"""The side of an image must be a multiple of this many pixels."""
PRIOR = 0.01
"""Score of every cell before training: almost all cells are background."""


@dataclass(frozen=True)
class Size:
    """How large a detector is.

    Attributes:
        backbone: The backbone.
        width: Channels of the pyramid and of the head.
        head_depth: Convolutions in each branch of the head.
    """

    backbone: BackboneSize
    width: int
    head_depth: int = 2


SIZES: dict[str, Size] = {
    "dense-nano": Size(BACKBONES["nano"], width=48),
    "dense-small": Size(BACKBONES["small"], width=96),
    "dense-medium": Size(BACKBONES["medium"], width=128),
}
"""The built-in detectors."""


class Detector(DetectorNetwork):
    """Backbone, pyramid and head.

    Attributes:
        num_classes: Number of classes.
        image_size: Side of the images in pixels.
        points: (A, 2) float32, centres of the cells in pixels, x before y.
        strides: (A,) float32, stride of each cell in pixels.

    Args:
        name: A key of `SIZES`.
        num_classes: Number of classes.
        channels: Channels of an image.
        image_size: Side in pixels, a multiple of `SIZE_STEP`.
    """

    points: torch.Tensor
    strides: torch.Tensor

    def __init__(self, name: str, *, num_classes: int, channels: int, image_size: int) -> None:
        super().__init__(num_classes=num_classes, image_size=image_size)
        if image_size % SIZE_STEP:
            nearest = -(-image_size // SIZE_STEP) * SIZE_STEP
            message = f"image_size {image_size} is not a multiple of {SIZE_STEP}"
            raise ValueError(f"{message}; set model.options.image_size to {nearest}")
        size = SIZES[name]
        widths, depth = size.backbone.widths, size.backbone.depth
        self.backbone = Backbone(channels=channels, widths=widths, depth=depth)
        self.pyramid = Pyramid(widths[1:], width=size.width)
        self.head = Head(width=size.width, depth=size.head_depth, num_classes=num_classes)
        for module in (*self.backbone.modules(), *self.pyramid.modules()):
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        points, strides = place_cells(image_size)
        self.register_buffer("points", points, persistent=False)
        self.register_buffer("strides", strides, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) normalised -> (B, A, 4 * BINS + K): logits of distances, then of classes.

        `A` runs over levels from the finest, then over rows, then over columns. The distances are
        those to the left, upper, right and lower side.
        """
        raw: torch.Tensor = self.head(self.pyramid(self.backbone(images)))
        return raw

    @property
    def last_layer(self) -> nn.Conv2d:
        """The layer whose shape depends on the classes."""
        return self.head.to_logits

    def find_compared(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the part of an output that boxes are chosen from: all of it."""
        return raw

    def find_boxes(self, raw: torch.Tensor, *, threshold: float | torch.Tensor) -> Found:
        """Return the boxes that an output reports; see `select_boxes`."""
        return select_boxes(*self.decode(raw), threshold=threshold)

    def decode(self, raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn an output into boxes inside the image, and their scores.

        Args:
            raw: (B, A, 4 * BINS + K), as `forward` returns it.

        Returns:
            Boxes (B, A, 4) as left, top, right, bottom in pixels, and scores (B, A, K) in [0, 1].
        """
        boxes = self.place_boxes(raw).clamp(0, self.image_size)
        return boxes, raw[..., 4 * BINS :].sigmoid()

    def place_boxes(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the predicted boxes (B, A, 4) in pixels; they can extend beyond the image."""
        logits = raw[..., : 4 * BINS].reshape(*raw.shape[:-1], 4, BINS)
        bins = torch.arange(BINS, dtype=raw.dtype, device=raw.device)
        distances = (logits.softmax(dim=-1) * bins).sum(dim=-1) * self.strides[:, None]
        near, far = distances[..., :2], distances[..., 2:]
        return torch.cat([self.points - near, self.points + far], dim=-1)


class Head(nn.Module):
    """Two branches, for boxes and for classes; the levels share all but their batch norms.

    Args:
        width: Channels of each level.
        depth: Convolutions in each branch.
        num_classes: Number of classes.
    """

    def __init__(self, *, width: int, depth: int, num_classes: int) -> None:
        super().__init__()
        self.boxes = Branch(width, depth=depth)
        self.classes = Branch(width, depth=depth)
        self.to_distances = nn.Conv2d(width, 4 * BINS, 1)
        self.to_logits = nn.Conv2d(width, num_classes, 1)
        for layer in (self.to_distances, self.to_logits):
            nn.init.normal_(layer.weight, std=0.01)
        nn.init.constant_(_bias_of(self.to_logits), -math.log((1 - PRIOR) / PRIOR))
        # Begin with boxes of some cells' size; equal logits would begin with 15 cells.
        falling = -0.4 * torch.arange(BINS, dtype=torch.float32)
        with torch.no_grad():
            _bias_of(self.to_distances).copy_(falling.repeat(4))

    def forward(self, levels: Sequence[torch.Tensor]) -> torch.Tensor:
        """Levels (B, F, S', S') -> (B, A, 4 * BINS + K)."""
        found = []
        for number, level in enumerate(levels):
            distances = self.to_distances(self.boxes(level, number))
            logits = self.to_logits(self.classes(level, number))
            found.append(torch.cat([distances, logits], dim=1).flatten(2))
        return torch.cat(found, dim=2).transpose(1, 2)


class Branch(nn.Module):
    """3x3 convolutions with ReLU; each level has its own batch norms."""

    def __init__(self, width: int, *, depth: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(depth)
        )
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.BatchNorm2d(width) for _ in STRIDES) for _ in range(depth)
        )
        for layer in self.convolutions:
            nn.init.kaiming_normal_(cast("nn.Conv2d", layer).weight, nonlinearity="relu")

    def forward(self, x: torch.Tensor, level: int) -> torch.Tensor:
        """(B, F, S', S') -> (B, F, S', S')."""
        for convolution, norms in zip(self.convolutions, self.norms, strict=True):
            x = cast("nn.ModuleList", norms)[level](convolution(x)).relu()
        return x


def place_cells(image_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the centres of all cells (A, 2) and their strides (A,), both in pixels."""
    points, strides = [], []
    for stride in STRIDES:
        centres = (torch.arange(image_size // stride) + 0.5) * stride
        rows, columns = torch.meshgrid(centres, centres, indexing="ij")
        points.append(torch.stack([columns, rows], dim=-1).flatten(0, 1))
        strides.append(torch.full((len(points[-1]),), float(stride)))
    return torch.cat(points), torch.cat(strides)


def _bias_of(layer: nn.Conv2d) -> torch.Tensor:
    assert layer.bias is not None
    return layer.bias
