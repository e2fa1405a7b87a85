"""Images as inputs of an exported network: noise to trace it, real samples, and their description.

Shapes: N images, B batch, C channels, S side in pixels.
"""

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.predict.images import INPUT, feed_pixels
from redkiln.predict.pixels import RESAMPLING
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Answers, Exportable
from worker.export.target import Arrays
from worker.tasks.imagery.opening import Options
from worker.trainer.images.decode.decoded_set import Pixels
from worker.trainer.images.decode.facts import DecodedFacts

Network = TypeVar("Network", bound=nn.Module)


class Normalized(nn.Module):
    """A network that normalises pixels in [0, 1] itself, so that callers cannot get it wrong."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, *, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))
        self.network = network

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> the same, normalised."""
        return (images - self.mean) / self.std


class ImageSamples:
    """Decoded images as samples."""

    noun = "images"

    def __init__(self, pixels: Pixels) -> None:
        self._pixels = pixels

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return the pixels of some images, (B, S, S, C) uint8."""
        return {INPUT: self._pixels[rows]}

    def feed(self, raw: Arrays) -> Arrays:
        """Return them as (B, C, S, S) float32 in [0, 1]."""
        return feed_pixels(raw[INPUT])


def copy_to_cpu(network: Network) -> Network:
    """Copy a network to the CPU, so that its trace does not depend on the layout in training."""
    layout = torch.contiguous_format
    return copy.deepcopy(network).to(device="cpu", memory_format=layout)  # type: ignore[call-overload, no-any-return]


def draw_noise(num: int, *, channels: int, size: int) -> torch.Tensor:
    """Return images of noise (num, C, S, S) in [0, 1], the same ones for the same number."""
    generator = torch.Generator().manual_seed(num)
    return torch.rand((num, channels, size, size), generator=generator)


def export_images(
    module: Normalized,
    *,
    image_size: int,
    output: str,
    architecture: dict[str, Any],
    others: Mapping[str, torch.Tensor] | None = None,
    answers: Answers | None = None,
) -> Exportable:
    """Return what is exported of a module that takes images (B, C, S, S).

    Args:
        module: The module, on the CPU.
        image_size: Side of the images.
        output: Name of the compared output.
        architecture: The facts that decide whether it can be exported.
        others: Inputs behind the images, by name, whose sizes never vary.
        answers: Outputs of the file in place of the compared one; None if that is its output.
    """
    shape = {"channels": module.mean.numel(), "size": image_size}
    fixed = {} if others is None else dict(others)
    return Exportable(
        module.eval().requires_grad_(False),
        examples={INPUT: draw_noise(TRACED_BATCH, **shape), **fixed},
        others={INPUT: draw_noise(OTHER_BATCH, **shape), **fixed},
        output=output,
        architecture=architecture,
        dynamic={name: {} for name in fixed},
        answers=answers,
    )


def describe_pixels(options: Options, facts: DecodedFacts) -> dict[str, Any]:
    """Return how an image becomes the model's input, as JSON, without the names of outputs.

    Args:
        options: Options of the resolved model.
        facts: Facts about the decoded images.
    """
    return {
        "input": INPUT,
        "dtype": "float32",
        "layout": "NCHW",
        "range": [0.0, 1.0],
        "channel_order": "grey" if options.channels == 1 else "RGB",
        "size": options.image_size,
        "resize": options.resize,
        "resampling": f"Pillow {RESAMPLING}",
        "orientation": "EXIF applied",
        "transparency": "over black",
        "normalization": "inside the graph: (images - mean) / std",
        "mean": facts.mean,
        "std": facts.std,
    }


def describe_fit(options: Options) -> str:
    """Return where an image is in the square, and how its pixels are found again, as formulas."""
    size = options.image_size
    if options.resize == "stretch":
        return f"none: x_input = x_image * {size} / width, y_input = y_image * {size} / height"
    return (
        f"the longer side becomes {size} pixels, the shorter one in proportion, at least 1; the "
        "image is in the middle, with black around it: "
        f"inner = max(1, round(shorter / longer * {size})), "
        f"offset = round(({size} - inner) / 2) on the shorter axis and 0 on the other, "
        "x_image = (x_input - offset_x) * width / inner_width, and y likewise"
    )
