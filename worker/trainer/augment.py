"""Random changes of whole batches of images, each sample with its own.

Flip, rotation and shift are one affine map a sample, so that pixels are interpolated once. The
maps of an epoch are drawn in one go and belong to places in its order, not to samples.

Legend of shapes: N places in an epoch, B batch, C channels, S side in pixels.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from redkiln.tasks.image_classification import Augment
from worker.trainer.seeds import build_generator


@dataclass(frozen=True)
class Transforms:
    """The maps of an epoch, or of a batch of it.

    Attributes:
        maps: (N, 2, 3) float32 from output to input places in [-1, 1]; None: nothing is asked.
        is_smooth: places fall between pixels (rotation), so pixels are interpolated.
    """

    maps: torch.Tensor | None
    is_smooth: bool

    def slice(self, start: int, stop: int) -> "Transforms":
        """The maps of some places."""
        maps = None if self.maps is None else self.maps[start:stop]
        return Transforms(maps, self.is_smooth)


def draw_transforms(
    augment: Augment, *, num: int, size: int, seed: int, epoch: int, device: torch.device
) -> Transforms:
    """The maps of the `num` places of an epoch of images of side `size`.

    A rotation is uniform within `rotate_degrees` to either side, a shift uniform in whole pixels
    within `crop` of the side in each direction, and a flip mirrors with a chance of one half.
    """
    reach = max_shift_pixels(augment, size=size)
    if not (augment.flip or augment.rotate_degrees or reach):
        return Transforms(None, is_smooth=False)
    generator = build_generator(seed, "augment", epoch, device=device)
    draws = torch.rand(4, num, generator=generator, device=device)
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
    return Transforms(maps, is_smooth=augment.rotate_degrees > 0)


def max_shift_pixels(augment: Augment, *, size: int) -> int:
    """The largest shift in whole pixels."""
    return math.floor(augment.crop * size + 1e-6)


def apply_transforms(images: torch.Tensor, transforms: Transforms) -> torch.Tensor:
    """Move the pixels of a batch; what comes from outside an image is black (0).

    Args:
        images: (B, C, S, S) float32, contiguous.
        transforms: of the batch's B places.
    """
    if transforms.maps is None:
        return images
    size = images.shape[-1]
    centres = (torch.arange(size, device=images.device) * 2 + 1) / size - 1
    maps = transforms.maps[..., None, None]  # (B, 2, 3, 1, 1)
    # Planes of x and y rather than pairs: 5 times faster than affine_grid on a CPU.
    grid = torch.addcmul(maps[:, :, 2], maps[:, :, 0], centres.expand(size, size))
    grid = grid.addcmul_(maps[:, :, 1], centres[:, None].expand(size, size))  # (B, 2, S, S)
    return functional.grid_sample(
        images,
        grid.permute(0, 2, 3, 1),
        mode="bilinear" if transforms.is_smooth else "nearest",
        padding_mode="zeros",
        align_corners=False,
    )
