"""An image classifier for export: it takes pixels in [0, 1] and normalises them itself.

Shapes: N images, B batch, C channels, S side in pixels.
"""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.predict.images import feed_pixels
from redkiln.predict.pixels import RESAMPLING
from redkiln.predict.session import PHOTOS
from redkiln.tasks.image_classification import Options
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.export.target import Arrays
from worker.trainer.images.decode.decoded_set import Pixels
from worker.trainer.images.decode.facts import DecodedFacts

INPUT = "images"
OUTPUT = "logits"


class NormalizedClassifier(nn.Module):
    """Normalises pixels in [0, 1] itself, so that callers cannot get it wrong."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, *, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> (B, classes) logits."""
        logits: torch.Tensor = self.network((images - self.mean) / self.std)
        return logits


def make_exportable(
    network: nn.Module,
    *,
    mean: list[float],
    std: list[float],
    image_size: int,
    architecture: dict[str, Any],
) -> Exportable:
    """Copy a network to the CPU and put its normalisation in front.

    `mean` and `std` are those of each channel, in [0, 1].
    """
    # Contiguous, so that the trace does not depend on the layout used for training.
    on_cpu = copy.deepcopy(network).to(device="cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module = NormalizedClassifier(on_cpu, mean=mean, std=std).eval().requires_grad_(False)
    shape = (len(mean), image_size, image_size)
    return Exportable(
        module,
        examples={INPUT: _random(TRACED_BATCH, shape, seed=0)},
        others={INPUT: _random(OTHER_BATCH, shape, seed=1)},
        output=OUTPUT,
        architecture=architecture,
    )


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


def preprocessing_of(
    options: Options,
    facts: DecodedFacts,
    *,
    names: tuple[str, str] = (INPUT, OUTPUT),
    labels_separator: str | None = None,
    is_embedded: bool = False,
) -> dict[str, Any]:
    """Return how an image becomes the model's input, as JSON.

    Args:
        options: Options of the resolved model.
        facts: Facts about the decoded images.
        names: Names of the model's input and output.
        labels_separator: Separator of the labels in `labels.csv`, if an image can have several.
        is_embedded: Whether the files prepare photos themselves.
    """
    own: dict[str, Any] = {}
    if is_embedded:
        own = {"interface": "embedded", "input": PHOTOS, "dtype": "uint8", "layout": "NHWC"}
        own["range"] = [0, 255]
    known = {} if labels_separator is None else {"labels_separator": labels_separator}
    return {
        **known,
        "input": names[0],
        "output": names[1],
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
        **own,
    }


def _random(num: int, shape: tuple[int, ...], *, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((num, *shape), generator=generator)
