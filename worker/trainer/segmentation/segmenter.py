"""A network that gives each pixel a class: a residual backbone, a pyramid, and a fine last level.

The pyramid joins the features with strides 4 to 32, as for detection. Its finest level is enlarged
and joined with the features of stride 2, which still have sharp edges (as in a U-Net). The logits
of this level are enlarged to the size of the image.

Shapes: B batch, C channels, S side of the square image in pixels, F width, K classes.

Source: Ronneberger et al., U-Net, arXiv:1505.04597; Kirillov et al., Panoptic Feature Pyramid
Networks, arXiv:1901.02446, section 3.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from worker.trainer.dense.pyramid import BACKBONES, Backbone, BackboneSize, Pyramid, convolve
from worker.trainer.segmentation.network import SegmenterNetwork


@dataclass(frozen=True)
class Size:
    """How large a network is.

    Attributes:
        backbone: The backbone.
        width: Channels of the pyramid.
        fine: Channels of the level with stride 2.
    """

    backbone: BackboneSize
    width: int
    fine: int


SIZES: dict[str, Size] = {
    "unet-nano": Size(BACKBONES["nano"], width=32, fine=16),
    "unet-small": Size(BACKBONES["small"], width=64, fine=32),
    "unet-medium": Size(BACKBONES["medium"], width=128, fine=64),
}
"""The built-in networks."""


class Segmenter(SegmenterNetwork):
    """Backbone, pyramid and head.

    Attributes:
        num_classes: Number of classes.
        image_size: Side of the images in pixels.

    Args:
        name: A key of `SIZES`.
        num_classes: Number of classes.
        channels: Channels of an image.
        image_size: Side in pixels, a multiple of 32.
    """

    def __init__(self, name: str, *, num_classes: int, channels: int, image_size: int) -> None:
        super().__init__(num_classes=num_classes, image_size=image_size)
        size = SIZES[name]
        widths, depth = size.backbone.widths, size.backbone.depth
        self.backbone = Backbone(channels=channels, widths=widths, depth=depth)
        self.pyramid = Pyramid(widths, width=size.width)
        self.finest = nn.Sequential(
            convolve(size.width + widths[0], size.fine, kernel=3),
            convolve(size.fine, size.fine, kernel=3),
        )
        self.to_logits = nn.Conv2d(size.fine, num_classes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        # Near-zero weights keep a network at the answer "background everywhere".
        nn.init.kaiming_normal_(self.to_logits.weight, nonlinearity="linear")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) normalised -> (B, K, S, S) logits."""
        early, *features = self.backbone.find_all(images)
        level = functional.interpolate(self.pyramid(features)[0], scale_factor=2.0)
        fine = self.finest(torch.cat([level, early], dim=1))  # (B, F, S / 2, S / 2)
        logits: torch.Tensor = self.to_logits(fine)
        return functional.interpolate(
            logits, scale_factor=2.0, mode="bilinear", align_corners=False
        )

    @property
    def last_layer(self) -> nn.Conv2d:
        """The layer whose shape depends on the classes."""
        return self.to_logits
