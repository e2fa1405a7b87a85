"""An image classifier for export: it takes pixels in [0, 1] and normalises them itself.

Shapes: N images, B batch, C channels, S side in pixels.
"""

from typing import Any

import torch
from torch import nn

from redkiln.predict.images import INPUT
from redkiln.predict.session import PHOTOS
from redkiln.tasks.image_classification import Options
from worker.export.exportable import Exportable
from worker.tasks.imagery.exported import Normalized, copy_to_cpu, describe_pixels, export_images
from worker.trainer.images.decode.facts import DecodedFacts

OUTPUT = "logits"


class NormalizedClassifier(Normalized):
    """Normalises pixels in [0, 1] itself, so that callers cannot get it wrong."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, S, S) float32 in [0, 1] -> (B, classes) logits."""
        logits: torch.Tensor = self.network(self.normalise(images))
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
    module = NormalizedClassifier(copy_to_cpu(network), mean=mean, std=std)
    return export_images(module, image_size=image_size, output=OUTPUT, architecture=architecture)


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
        **describe_pixels(options, facts),
        "input": names[0],
        "output": names[1],
        **own,
    }
