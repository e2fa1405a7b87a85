"""The loss of a segmenter: the cross-entropy of its pixels, and the Dice loss of its classes.

Both are means over the images of a batch, so the parts of a batch that does not fit into memory add
up to the same loss. The Dice loss of an image counts the classes that occur in it.

Shapes: B batch, K classes, S side in pixels.

Source: Milletari et al., V-Net, arXiv:1606.04797, section 3 (Dice).
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from redkiln.annotations import IGNORED
from redkiln.failure import FailureCode
from redkiln.spec.class_weights import compute_class_weights, find_weight_problems
from redkiln.tasks.semantic_segmentation import SegmentationTraining
from worker.process.failed import TrainingFailed


class SegmentationLoss:
    """Mean loss of logits (B, K, S, S) and labels (B, S, S) uint8.

    Args:
        dice_weight: Weight of the Dice loss; the cross-entropy has 1.
        smoothing: Share of each label that is spread over all classes.
        weights: (K,) weight of each class in the cross-entropy; None for 1.
    """

    def __init__(
        self, *, dice_weight: float, smoothing: float = 0.0, weights: torch.Tensor | None = None
    ) -> None:
        self._dice_weight, self._smoothing, self._weights = dice_weight, smoothing, weights

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean over the images."""
        logits, target = logits.float(), labels.long()
        is_known = target != IGNORED
        total = self._cross_entropy(logits, target, is_known)
        if self._dice_weight:
            total = total + self._dice_weight * dice_loss(logits, target, is_known)
        return total

    def _cross_entropy(
        self, logits: torch.Tensor, target: torch.Tensor, is_known: torch.Tensor
    ) -> torch.Tensor:
        each = functional.cross_entropy(
            logits,
            target,
            weight=self._weights,
            ignore_index=IGNORED,
            reduction="none",
            label_smoothing=self._smoothing,
        )
        return (each.sum(dim=(1, 2)) / is_known.sum(dim=(1, 2)).clamp(min=1)).mean()


def dice_loss(logits: torch.Tensor, target: torch.Tensor, is_known: torch.Tensor) -> torch.Tensor:
    """Return 1 - Dice, a mean over the classes that occur in each image, then over the images."""
    shares = logits.softmax(dim=1) * is_known[:, None]
    labels, known = target.where(is_known, 0)[:, None], is_known[:, None]
    wanted = torch.zeros_like(shares).scatter_(1, labels, known.to(shares.dtype))
    both = (shares * wanted).sum(dim=(2, 3))  # (B, K)
    sums = (shares + wanted).sum(dim=(2, 3))
    occurs = wanted.flatten(2).any(dim=2)
    missed = (1 - 2 * both / sums.clamp(min=1e-6)) * occurs
    return (missed.sum(dim=1) / occurs.sum(dim=1).clamp(min=1)).mean()


def build_segmentation_loss(
    training: SegmentationTraining,
    *,
    classes: Sequence[str],
    counts: Sequence[int],
    device: torch.device,
) -> SegmentationLoss:
    """Build the loss of a spec.

    Args:
        training: Training section of the spec.
        classes: Names by label.
        counts: Training pixels of each class.
        device: Device that the loss is computed on.

    Raises:
        TrainingFailed: the spec's class weights do not fit the classes.
    """
    if problems := find_weight_problems(training.class_weights, classes):
        pointer, message = problems[0]
        raise TrainingFailed(FailureCode.BAD_INPUT, f"{pointer}: {message}", pointer=pointer)
    weights = compute_class_weights(training.class_weights, classes=classes, counts=counts)
    return SegmentationLoss(
        dice_weight=training.dice_weight,
        smoothing=training.label_smoothing,
        weights=None if weights is None else torch.tensor(weights, device=device),
    )
