"""A detector for export: pixels in, boxes out, with normalisation and suppression inside.

Shapes: B batch, C channels, S side in pixels, A cells, K classes, N candidates, M reported boxes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from redkiln.predict.boxes.joined import OUTPUTS, THRESHOLD, join_outputs, split_outputs
from redkiln.spec.dense_models import DenseOptions
from worker.export.exportable import Answers, Exportable
from worker.export.target import Arrays
from worker.tasks.imagery.exported import (
    ImageSamples,
    Normalized,
    copy_to_cpu,
    describe_fit,
    describe_pixels,
    export_images,
)
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.selection import (
    MOST_FOUND,
    OVERLAP,
    SCORED_THRESHOLD,
    USUAL_THRESHOLD,
    Found,
)
from worker.trainer.images.decode.facts import DecodedFacts

RAW = "raw"
"""Name of the detector's own output, which the gate compares."""
LEAST_AGREEMENT = 0.99
"""Share of boxes that must have a partner in the other runtime."""


class ExportedDetector(Normalized):
    """Normalises pixels itself, and returns the detector's output and the boxes chosen from it."""

    network: DetectorNetwork

    def forward(
        self, images: torch.Tensor, threshold: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Detect objects.

        Args:
            images: (B, C, S, S) float32 in [0, 1].
            threshold: (1,) float32, smallest score of a reported box.

        Returns:
            The part of the detector's output that is compared, and boxes, scores and labels.
        """
        raw = self.network(self.normalise(images))
        found: Found = self.network.find_boxes(raw, threshold=threshold)
        return self.network.find_compared(raw), *found


class DetectorSamples(ImageSamples):
    """Decoded images as samples; every box that counts for the metrics is asked for."""

    def feed(self, raw: Arrays) -> Arrays:
        """Return them as (B, C, S, S) float32 in [0, 1], with the threshold of the metrics."""
        return {**super().feed(raw), THRESHOLD: np.array([SCORED_THRESHOLD], np.float32)}


def make_exportable(
    detector: DetectorNetwork,
    *,
    mean: list[float],
    std: list[float],
    architecture: dict[str, Any],
    threshold: float = USUAL_THRESHOLD,
) -> Exportable:
    """Copy a detector to the CPU, with its normalisation in front and the choice of boxes behind.

    Args:
        detector: The detector.
        mean: Mean of each channel in [0, 1].
        std: Standard deviation likewise.
        architecture: The facts that decide whether it can be exported.
        threshold: Smallest score of a reported box, unless the user gives another one.
    """
    module = ExportedDetector(copy_to_cpu(detector), mean=mean, std=std)
    answers = Answers(
        names=OUTPUTS,
        defaults={THRESHOLD: np.array([threshold], np.float32)},
        join=join_outputs,
        split=split_outputs,
        agreement="boxes with a partner, one to one",
        least_agreement=LEAST_AGREEMENT,
        translate=list_translations,
    )
    return make_answering(module, detector, answers=answers, architecture=architecture)


def make_answering(
    module: Normalized, detector: DetectorNetwork, *, answers: Answers, architecture: dict[str, Any]
) -> Exportable:
    """Return what is exported of a module that chooses objects by a threshold.

    Args:
        module: Takes images (B, C, S, S) and a threshold (1,).
        detector: The network inside it.
        answers: Its outputs behind the compared one.
        architecture: The facts that decide whether it can be exported.
    """
    return export_images(
        module,
        image_size=detector.image_size,
        output=RAW,
        architecture=architecture,
        others={THRESHOLD: torch.tensor([SCORED_THRESHOLD])},
        answers=answers,
    )


def list_translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return what writes `suppress` as ONNX."""
    # Only an export needs it, and it takes a second to import.
    from worker.tasks.object_detection.suppression import write_suppression

    return {torch.ops.redkiln.suppress.default: write_suppression}


def describe_inputs(options: DenseOptions, facts: DecodedFacts) -> dict[str, Any]:
    """Return how an image becomes the model's input, and what its boxes mean, as JSON."""
    return {
        **describe_pixels(options, facts),
        "outputs": list(OUTPUTS),
        "letterbox": describe_fit(options),
        "boxes": "left, top, right, bottom in pixels of the input; pixel (0, 0) covers the square "
        "from (0, 0) to (1, 1)",
    }


def describe_choice(threshold: float) -> dict[str, Any]:
    """Return how boxes are chosen inside the graph, as JSON."""
    return {
        "most_boxes": MOST_FOUND,
        "overlap": OVERLAP,
        "threshold": threshold,
        "scored_threshold": SCORED_THRESHOLD,
    }
