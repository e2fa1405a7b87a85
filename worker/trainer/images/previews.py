"""Sample predictions of an image classifier."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from worker.trainer.evaluate import evaluating
from worker.trainer.images.image_set import ImageSet
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows

LEAST_ON_GPU = 256
"""A GPU may have to tune kernels for a batch of another size than evaluation's."""


def build_image_preview(
    model: nn.Module,
    images: ImageSet,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """What shows some validation images; training ones where no validation split was asked for.

    Args:
        model: as it is trained; put into evaluation mode meanwhile.
        images: of the job; the test split is left alone.
        mean: of each channel, in [0, 1], as the batches are normalised by.
        std: likewise.
        autocast: entered for the forward pass.
    """
    split = images.rows["validation"] if images.num("validation") else images.rows["train"]
    chosen = spread_rows(split.tolist())
    fed = chosen
    if images.device.type == "cuda":
        fed = chosen + [row for row in split.tolist() if row not in set(chosen)]
        fed = fed[: max(LEAST_ON_GPU, len(chosen))]

    def show() -> list[Shown]:
        batch, labels = images.get_batch(torch.tensor(fed))
        assert isinstance(batch, torch.Tensor)
        with evaluating(model), autocast():
            logits = model(batch)
        num = len(chosen)
        chances = logits[:num].float().softmax(dim=1)
        confidence, predicted = (part.cpu().tolist() for part in chances.max(dim=1))
        truth = labels[:num].cpu().tolist()
        pixels = _to_pixels(batch[:num], mean=mean, std=std)
        return [
            Shown(
                truth=images.classes[true],
                predicted=images.classes[said],
                confidence=chance,
                is_right=true == said,
                image=picture,
            )
            for true, said, chance, picture in zip(
                truth, predicted, confidence, pixels, strict=True
            )
        ]

    return show


def _to_pixels(
    batch: torch.Tensor, *, mean: Sequence[float], std: Sequence[float]
) -> "np.typing.NDArray[np.uint8]":
    """Normalised images (B, C, S, S) as they were, (B, S, S, C) uint8."""
    levels = batch.float().cpu().permute(0, 2, 3, 1) * torch.tensor(std) + torch.tensor(mean)
    pixels: np.typing.NDArray[np.uint8] = (levels * 255).round().clamp(0, 255).byte().numpy()
    return pixels
