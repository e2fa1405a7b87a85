"""A detector for export: pixels in, boxes out, with normalisation and suppression inside.

Shapes: B batch, C channels, S side in pixels, A cells, K classes, N candidates, M reported boxes.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.predict.boxes.joined import OUTPUTS, THRESHOLD, join_outputs, split_outputs
from redkiln.predict.images import INPUT, feed_pixels
from redkiln.predict.pixels import RESAMPLING
from redkiln.tasks.object_detection import DetectorOptions
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Answers, Exportable
from worker.export.target import Arrays
from worker.trainer.detection.detector import Detector
from worker.trainer.detection.selection import (
    MOST_FOUND,
    OVERLAP,
    SCORED_THRESHOLD,
    USUAL_THRESHOLD,
    Found,
    select_boxes,
)
from worker.trainer.images.decode.decoded_set import Pixels
from worker.trainer.images.decode.facts import DecodedFacts

RAW = "raw"
"""Name of the detector's own output, which the gate compares."""
LEAST_AGREEMENT = 0.99
"""Share of boxes that must have a partner in the other runtime."""


class ExportedDetector(nn.Module):
    """Normalises pixels itself, and returns the detector's output and the boxes chosen from it."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: Detector, *, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(
        self, images: torch.Tensor, threshold: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Detect objects.

        Args:
            images: (B, C, S, S) float32 in [0, 1].
            threshold: (1,) float32, smallest score of a reported box.

        Returns:
            The detector's output (B, A, ...), and boxes, scores and labels of `select_boxes`.
        """
        raw = self.network((images - self.mean) / self.std)
        found: Found = select_boxes(*self.network.decode(raw), threshold=threshold)
        return raw, *found


class DetectorSamples:
    """Decoded images as samples; every box that counts for the metrics is asked for."""

    noun = "images"

    def __init__(self, pixels: Pixels) -> None:
        self._pixels = pixels

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return the pixels of some images, (B, S, S, C) uint8."""
        return {INPUT: self._pixels[rows]}

    def feed(self, raw: Arrays) -> Arrays:
        """Return them as (B, C, S, S) float32 in [0, 1], with the threshold of the metrics."""
        return {**feed_pixels(raw[INPUT]), THRESHOLD: np.array([SCORED_THRESHOLD], np.float32)}


def make_exportable(
    detector: Detector,
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
    # Contiguous, so that the trace does not depend on the layout used for training.
    on_cpu = copy.deepcopy(detector).to(device="cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module = ExportedDetector(on_cpu, mean=mean, std=std).eval().requires_grad_(False)
    shape = (len(mean), detector.image_size, detector.image_size)
    least = torch.tensor([SCORED_THRESHOLD])
    return Exportable(
        module,
        examples={INPUT: _draw(TRACED_BATCH, *shape), THRESHOLD: least},
        others={INPUT: _draw(OTHER_BATCH, *shape), THRESHOLD: least},
        output=RAW,
        architecture=architecture,
        dynamic={THRESHOLD: {}},
        answers=Answers(
            names=OUTPUTS,
            defaults={THRESHOLD: np.array([threshold], np.float32)},
            join=join_outputs,
            split=split_outputs,
            agreement="boxes with a partner, one to one",
            least_agreement=LEAST_AGREEMENT,
            translate=list_translations,
        ),
    )


def list_translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return what writes `suppress` as ONNX."""
    # Only an export needs it, and it takes a second to import.
    from worker.tasks.object_detection.suppression import write_suppression

    return {torch.ops.redkiln.suppress.default: write_suppression}


def describe_inputs(options: DetectorOptions, facts: DecodedFacts) -> dict[str, Any]:
    """Return how an image becomes the model's input, and what its boxes mean, as JSON."""
    return {
        "input": INPUT,
        "outputs": list(OUTPUTS),
        "dtype": "float32",
        "layout": "NCHW",
        "range": [0.0, 1.0],
        "channel_order": "grey" if options.channels == 1 else "RGB",
        "size": options.image_size,
        "resize": options.resize,
        "letterbox": _describe_fit(options),
        "boxes": "left, top, right, bottom in pixels of the input; pixel (0, 0) covers the square "
        "from (0, 0) to (1, 1)",
        "resampling": f"Pillow {RESAMPLING}",
        "orientation": "EXIF applied",
        "transparency": "over black",
        "normalization": "inside the graph: (images - mean) / std",
        "mean": facts.mean,
        "std": facts.std,
    }


def describe_choice(threshold: float) -> dict[str, Any]:
    """Return how boxes are chosen inside the graph, as JSON."""
    return {
        "most_boxes": MOST_FOUND,
        "overlap": OVERLAP,
        "threshold": threshold,
        "scored_threshold": SCORED_THRESHOLD,
    }


def _describe_fit(options: DetectorOptions) -> str:
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


def _draw(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[0])
    return torch.rand(shape, generator=generator)
