"""Random colours: brightness, contrast, saturation and hue as one linear map per sample.

With m the mean grey value of a sample, each of its pixels p (one value per channel) becomes
A p + b m, clamped to the range of a pixel: A is (C, C) and b is a column. Hue rotates p about the
grey axis, saturation blends p with its grey value, contrast blends p with m, and brightness
multiplies. Values are clamped once, after all of these, so a batch takes one matrix product.

Shapes: N positions in an epoch, B batch, C channels, S side in pixels.

Source: the grey value is that of ITU-R BT.601; hue as a rotation of colour space about its diagonal
is P. Haeberli, "Matrix Operations for Image Processing", 1993.
"""

import math

import torch

from redkiln.spec.image_training import ColourChanges
from worker.trainer.inputs import send

GREY = (0.299, 0.587, 0.114)
WHITE = 255.0


def draw_colours(
    augment: ColourChanges, *, num: int, channels: int, generator: torch.Generator
) -> torch.Tensor | None:
    """Draw the colour maps of `num` positions, (N, C, C + 1) float32: A and b side by side.

    Each factor is uniform in 1 plus or minus its setting, and hue is uniform within its share of
    the colour circle in both directions. Grey images have no saturation and no hue.

    Returns:
        None if no colour changes.
    """
    coloured = channels == 3
    has_tone = augment.brightness > 0 or augment.contrast > 0
    has_colour = coloured and (augment.saturation > 0 or augment.hue > 0)
    if not (has_tone or has_colour):
        return None
    draws = 2 * torch.rand(4, num, generator=generator, device=generator.device) - 1
    brightness = 1 + augment.brightness * draws[0]
    contrast = 1 + augment.contrast * draws[1]
    grey = torch.tensor(GREY if coloured else (1.0,), device=draws.device)
    linear = torch.eye(channels, device=draws.device).expand(num, -1, -1)
    if has_colour:
        saturation = (1 + augment.saturation * draws[2])[:, None, None]
        to_grey = grey.expand(channels, channels)  # every channel becomes the grey value
        blend = saturation * torch.eye(3, device=draws.device) + (1 - saturation) * to_grey
        linear = blend @ _turn(2 * math.pi * augment.hue * draws[3])
    linear = (brightness * contrast)[:, None, None] * linear
    offset = (brightness * (1 - contrast))[:, None, None].expand(-1, channels, 1)
    return torch.cat([linear, offset], dim=2)


def apply_colours(images: torch.Tensor, colours: torch.Tensor) -> torch.Tensor:
    """Change the colours of a batch.

    Args:
        images: (B, C, S, S) float32, from 0 to 255.
        colours: (B, C, C + 1) float32, the maps of the B positions.
    """
    channels, shape = images.shape[1], images.shape
    # Use planes whatever the layout was: a sum depends on the order of its terms.
    pixels = images.contiguous().flatten(2)  # (B, C, S * S)
    # Not a matrix product: its sums would depend on how many images are changed together.
    means = (pixels.mean(dim=2) * _grey_of(images)).sum(dim=1)  # (B,)
    offset = colours[:, :, channels] * means[:, None]  # (B, C)
    changed = torch.baddbmm(offset[:, :, None], colours[:, :, :channels], pixels)
    return changed.clamp_(0, WHITE).view(shape)


def scale_colours(colours: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
    """Return changes of colours followed by `scale`, as maps of pixels and of their mean.

    With m the mean of each channel, a pixel p becomes A p + D m, (N, C, 2 C): A and D side by side.
    Values are not clamped in between.

    Args:
        colours: (N, C, C + 1) float32, see `draw_colours`.
        scale: (C, 1) float32.
    """
    channels = colours.shape[1]
    scaled = colours * scale
    return torch.cat([scaled[..., :channels], scaled[..., channels:] * _grey_of(scaled)], dim=2)


def _grey_of(images: torch.Tensor) -> torch.Tensor:
    """Return the share of each channel in the grey value, (C,), for tensors (B, C, ...)."""
    return send(torch.tensor(GREY if images.shape[1] == 3 else (1.0,)), images.device)


def _turn(angle: torch.Tensor) -> torch.Tensor:
    """Return rotations about the grey axis, (N, 3, 3)."""
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    third, root = 1 / 3, math.sqrt(1 / 3)
    cross = torch.tensor([[0, -root, root], [root, 0, -root], [-root, root, 0]])
    identity = torch.eye(3, device=angle.device)
    return cosine * identity + (1 - cosine) * third + sine * cross.to(angle.device)
