"""Where pixels come from: flip, rotation, scale, shear and shift as one affine map per sample."""

import math
from collections.abc import Callable

import torch

from redkiln.tasks.image_classification import Augment


def is_smooth(augment: Augment) -> bool:
    """Return whether any change maps pixels to coordinates between pixels."""
    return bool(
        augment.rotate_degrees or augment.scale or augment.shear_degrees or augment.translate
    )


def max_shift_pixels(augment: Augment, *, size: int) -> int:
    """Return the largest shift in whole pixels."""
    return math.floor(augment.crop * size + 1e-6)


def draw_maps(
    augment: Augment, *, num: int, size: int, generator: Callable[[str], torch.Generator]
) -> torch.Tensor | None:
    """Draw the maps of `num` positions, (N, 2, 3) float32 from output to input in [-1, 1].

    A rotation is uniform within `rotate_degrees` in both directions, a crop is uniform in whole
    pixels within its share of the side in each direction, and a flip mirrors with probability one
    half. The logarithm of the scale is uniform, so enlarging and shrinking are equally likely. Each
    direction has its own shear and its own further shift by fractions of a pixel.

    Args:
        augment: Augmentation from the spec.
        num: Positions in the epoch.
        size: Side of the images in pixels.
        generator: Builds the random generator for a purpose.

    Returns:
        None if nothing moves.
    """
    reach = max_shift_pixels(augment, size=size)
    moves = augment.flip or is_smooth(augment) or reach
    if not moves:
        return None
    first = generator("augment")
    draws = torch.rand(4, num, generator=first, device=first.device)
    angle = (2 * draws[0] - 1) * math.radians(augment.rotate_degrees)
    mirror = 1 - 2 * (draws[1] < 0.5).float() if augment.flip else torch.ones_like(draws[1])
    # A pixel is 2 / S wide in the coordinates of grid_sample.
    shift = ((draws[2:] * (2 * reach + 1)).floor() - reach) * (2 / size)  # (2, N)
    cosine, sine = angle.cos(), angle.sin()
    rows = (
        torch.stack([mirror * cosine, -mirror * sine, shift[0]], dim=1),
        torch.stack([sine, cosine, shift[1]], dim=1),
    )
    maps = torch.stack(rows, dim=1)  # (N, 2, 3)
    if not (augment.scale or augment.shear_degrees or augment.translate):
        return maps
    return _bend(maps, augment, generator("affine"))


def _bend(maps: torch.Tensor, augment: Augment, generator: torch.Generator) -> torch.Tensor:
    draws = 2 * torch.rand(5, len(maps), generator=generator, device=generator.device) - 1
    zoom = torch.exp(-draws[0] * math.log1p(augment.scale))  # of input coordinates: the inverse
    shear = torch.tan(draws[1:3] * math.radians(augment.shear_degrees))  # (2, N)
    one = torch.ones_like(zoom)
    bend = zoom * torch.stack([torch.stack([one, shear[0]]), torch.stack([shear[1], one])])
    linear = torch.einsum("nij,jkn->nik", maps[:, :, :2], bend)
    moved = maps[:, :, 2] + 2 * augment.translate * draws[3:5].T
    return torch.cat([linear, moved[:, :, None]], dim=2)
