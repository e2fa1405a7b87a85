"""A segmenter for export: pixels in, logits and classes out, with normalisation inside.

Shapes: B batch, C channels, S side in pixels, K classes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.masks.outputs import CLASSES, LOGITS
from redkiln.spec.dense_models import DenseOptions
from worker.export.exportable import Answers, Exportable
from worker.tasks.imagery.exported import (
    Normalized,
    copy_to_cpu,
    describe_fit,
    describe_pixels,
    export_images,
)
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.segmentation.network import SegmenterNetwork

LEAST_AGREEMENT = 0.99
"""Share of pixels that must have the same class in the other runtime."""
COMPARED_BYTES = 64 << 20
"""Logits that are compared number by number."""


class ExportedSegmenter(Normalized):
    """Normalises pixels itself, and returns the logits and the classes chosen from them."""

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, C, S, S) float32 in [0, 1] -> (B, K, S, S) logits, and (B, S, S) uint8 classes."""
        logits: torch.Tensor = self.network(self.normalise(images))
        return logits, logits.argmax(dim=1).to(torch.uint8)


def make_exportable(
    segmenter: SegmenterNetwork,
    *,
    mean: list[float],
    std: list[float],
    architecture: dict[str, Any],
) -> Exportable:
    """Copy a segmenter to the CPU, with its normalisation in front and the choice behind.

    Args:
        segmenter: The network.
        mean: Mean of each channel in [0, 1].
        std: Standard deviation likewise.
        architecture: The facts that decide whether it can be exported.
    """
    module = ExportedSegmenter(copy_to_cpu(segmenter), mean=mean, std=std)
    bytes_each = 4 * segmenter.num_classes * segmenter.image_size**2
    return export_images(
        module,
        image_size=segmenter.image_size,
        output=LOGITS,
        architecture=architecture,
        answers=Answers(
            names=(CLASSES,),
            defaults={},
            join=_take_classes,
            split=lambda joined: {CLASSES: joined},
            agreement="pixels with the same class",
            least_agreement=LEAST_AGREEMENT,
            translate=_translate_nothing,
            is_compared_kept=True,
            most_compared=max(2, COMPARED_BYTES // bytes_each),
        ),
    )


def describe_inputs(options: DenseOptions, facts: DecodedFacts) -> dict[str, Any]:
    """Return how an image becomes the model's input, and what its masks mean, as JSON."""
    return {
        **describe_pixels(options, facts),
        "outputs": [LOGITS, CLASSES],
        "letterbox": describe_fit(options),
        "masks": "logits (batch, classes, side, side) and classes (batch, side, side) are for the "
        "pixels of the input; what is beyond the letterboxed image has no meaning",
        "ignored": IGNORED,
    }


def _take_classes(found: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the classes (B, S, S) uint8, which are scored as they are."""
    classes: NDArray[np.uint8] = found[0]
    return classes


def _translate_nothing() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return no translations: the choice has operators of ONNX."""
    return {}
