"""A network that finds objects and masks, for export: pixels in, boxes and masks out.

Shapes: B batch, C channels, S side in pixels, T side of a mask, M reported objects, H heads.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from redkiln.predict.boxes.joined import THRESHOLD
from redkiln.predict.instances.joined import OUTPUTS, list_objects, save_found, save_truth
from redkiln.predict.instances.regions import INSIDE
from redkiln.spec.dense_models import DenseOptions
from worker.export.exportable import Answers, Exportable
from worker.tasks.imagery.exported import Normalized, copy_to_cpu
from worker.tasks.object_detection import exported as detection
from worker.trainer.detection.selection import MOST_FOUND, USUAL_THRESHOLD
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.instances.detector import InstanceDetector

COMPARED_BYTES = 64 << 20
"""Heads that are compared number by number."""


class ExportedInstances(Normalized):
    """Normalises pixels itself, and returns the heads and the objects chosen by them."""

    network: InstanceDetector

    def forward(self, images: torch.Tensor, threshold: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Find objects.

        Args:
            images: (B, C, S, S) float32 in [0, 1].
            threshold: (1,) float32, smallest score of a reported object.

        Returns:
            The heads (B, H), boxes (B, M, 4), scores (B, M), labels (B, M) and masks
            (B, M, T, T) uint8.
        """
        raw = self.network(self.normalise(images))
        found = self.network.find_instances(raw, threshold=threshold)
        return self.network.find_compared(raw), *found


def make_exportable(
    detector: InstanceDetector,
    *,
    mean: list[float],
    std: list[float],
    architecture: dict[str, Any],
    threshold: float = USUAL_THRESHOLD,
) -> Exportable:
    """Copy a network to the CPU, with its normalisation in front and the choice of objects behind.

    Args:
        detector: The network.
        mean: Mean of each channel in [0, 1].
        std: Standard deviation likewise.
        architecture: The facts that decide whether it can be exported.
        threshold: Smallest score of a reported object, unless the user gives another one.
    """
    module = ExportedInstances(copy_to_cpu(detector), mean=mean, std=std)
    bytes_each = 4 * detector.mask_side**2 * int(detector.network.config.d_model)
    answers = Answers(
        names=OUTPUTS,
        defaults={THRESHOLD: np.array([threshold], np.float32)},
        join=partial(list_objects, side=detector.image_size),
        split=partial(save_found, most=MOST_FOUND),
        agreement="masks with a partner, one to one",
        least_agreement=detection.LEAST_AGREEMENT,
        translate=dict,
        most_compared=max(2, COMPARED_BYTES // bytes_each),
        save_truth=save_truth,
    )
    return detection.make_answering(module, detector, answers=answers, architecture=architecture)


def describe_inputs(
    options: DenseOptions, facts: DecodedFacts, *, mask_side: int
) -> dict[str, Any]:
    """Return how an image becomes the model's input, and what boxes and masks mean, as JSON."""
    return {
        **detection.describe_inputs(options, facts),
        "outputs": list(OUTPUTS),
        "masks": f"masks (batch, {MOST_FOUND}, {mask_side}, {mask_side}) uint8 cover the whole "
        "input, 255 for a pixel that surely belongs to the object: enlarge them (bilinear) to the "
        f"input's side, then a pixel of at least {INSIDE} belongs to the object",
        "mask_side": mask_side,
    }
