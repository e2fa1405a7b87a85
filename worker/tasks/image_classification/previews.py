"""Predictions of an image classifier on sample images."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from worker.trainer.images.image_set import ImageSet
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.insight.shown_labels import judge_labels
from worker.trainer.scoring.evaluate import evaluating

LEAST_ON_GPU = 256
"""Least images in a GPU's preview batch: a smaller batch may make the GPU tune kernels again."""


def build_image_preview(
    model: nn.Module,
    images: ImageSet,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """Return a function that predicts some validation images, or training ones without a split.

    Args:
        model: The model in training; put into evaluation mode during the call.
        images: The job's images; the test split is not used.
        mean: Mean of each channel in [0, 1], as used to normalise batches.
        std: Standard deviation likewise.
        autocast: Context for the forward pass.
    """
    split = images.rows["validation"] if images.num("validation") else images.rows["train"]
    chosen = spread_rows(split.tolist())
    batch_rows = chosen
    if images.device.type == "cuda":
        batch_rows = chosen + [row for row in split.tolist() if row not in set(chosen)]
        batch_rows = batch_rows[: max(LEAST_ON_GPU, len(chosen))]

    def show() -> list[Shown]:
        batch, labels = images.get_batch(torch.tensor(batch_rows))
        assert isinstance(batch, torch.Tensor)
        with evaluating(model), autocast():
            logits = model(batch)
        num = len(chosen)
        pixels = _to_pixels(batch[:num], mean=mean, std=std)
        if images.has_labels:
            found = judge_labels(logits[:num], labels[:num], images.classes)
            return [replace(one, image=picture) for one, picture in zip(found, pixels, strict=True)]
        probabilities = logits[:num].float().softmax(dim=1)
        confidence, predicted = (part.cpu().tolist() for part in probabilities.max(dim=1))
        truth = labels[:num].cpu().tolist()
        return [
            Shown(
                truth=images.classes[true],
                predicted=images.classes[prediction],
                confidence=probability,
                is_right=true == prediction,
                image=picture,
            )
            for true, prediction, probability, picture in zip(
                truth, predicted, confidence, pixels, strict=True
            )
        ]

    return show


def _to_pixels(
    batch: torch.Tensor, *, mean: Sequence[float], std: Sequence[float]
) -> "np.typing.NDArray[np.uint8]":
    """Undo the normalisation of images (B, C, S, S); returns (B, S, S, C) uint8."""
    levels = batch.float().cpu().permute(0, 2, 3, 1) * torch.tensor(std) + torch.tensor(mean)
    pixels: np.typing.NDArray[np.uint8] = (levels * 255).round().clamp(0, 255).byte().numpy()
    return pixels
