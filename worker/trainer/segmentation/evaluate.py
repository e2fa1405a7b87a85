"""Scores a segmenter on a split.

Shapes: B batch, K classes, S side in pixels.
"""

from collections.abc import Callable, Iterable

import torch

from redkiln.annotations import IGNORED
from redkiln.predict.masks.scores import METRICS, score_counts
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluating
from worker.trainer.segmentation.network import SegmenterNetwork

SEGMENTATION_METRICS = ("val/loss", *(f"val/{name}" for name in METRICS))
"""Metrics of the validation split in each epoch."""


def evaluate_segmenter(
    segmenter: SegmenterNetwork,
    batches: Iterable[Batch],
    *,
    loss: Loss,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return the mean loss, mean IoU, Dice, and the share of right pixels.

    Args:
        segmenter: The network.
        batches: Images with masks (B, S, S).
        loss: Mean loss of a batch.
        autocast: Context for each forward pass.
        should_stop: Called before each batch.

    Returns:
        `loss`, `miou`, `dice` and `pixel_accuracy`; None if stopped.
    """
    losses, num, num_classes = [], 0, segmenter.num_classes
    counts: torch.Tensor | int = 0
    with evaluating(segmenter):
        for inputs, masks in batches:
            if should_stop():
                return None
            with autocast():
                logits = segmenter(*as_parts(inputs))
            losses.append(loss(logits.float(), masks) * len(masks))
            counts = counts + count_on_device(logits.argmax(dim=1), masks, num_classes)
            num += len(masks)
    assert isinstance(counts, torch.Tensor)
    scores = score_counts(counts.cpu().numpy())
    return {"loss": float(torch.stack(losses).sum()) / num, **scores}


def count_on_device(found: torch.Tensor, truth: torch.Tensor, num_classes: int) -> torch.Tensor:
    """Count the pixels by true and found class, (K, K) int64; ignored ones do not count."""
    is_known = truth != IGNORED
    pairs = truth.long() * num_classes + found
    spare = num_classes**2  # ignored pixels are counted here, so that no sizes reach the host
    pairs = torch.where(is_known, pairs, spare).flatten()
    counts = torch.zeros(spare + 1, dtype=torch.int64, device=pairs.device)
    counts.scatter_add_(0, pairs, torch.ones_like(pairs))
    return counts[:spare].view(num_classes, num_classes)


def is_better_segmenter(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """Return whether the mean IoU is higher, or equal with a lower loss."""
    new = (metrics["val/miou"], -metrics["val/loss"])
    return new > (best["val/miou"], -best["val/loss"])
