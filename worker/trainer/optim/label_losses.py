"""The loss of a model that gives each sample several labels: binary cross-entropy of each class.

Shapes: B batch, K classes.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional

from redkiln.failure import FailureCode
from redkiln.spec.class_weights import (
    ClassifierTraining,
    compute_label_weights,
    find_weight_problems,
)
from worker.process.failed import TrainingFailed
from worker.trainer.optim.losses import Loss


def build_label_loss(
    training: ClassifierTraining,
    *,
    classes: Sequence[str],
    counts: Sequence[int],
    num: int,
    device: torch.device,
) -> Loss:
    """Build the function for the mean loss of logits (B, K) and targets (B, K), 0 or 1.

    Args:
        training: Training section of the spec; class weights weigh the samples with the label.
        classes: Names by label.
        counts: Training samples with each label.
        num: Training samples.
        device: Device that the loss is computed on.

    Raises:
        TrainingFailed: the spec's class weights do not fit the classes.
    """
    problems = find_weight_problems(training.class_weights, classes)
    if problems:
        pointer, message = problems[0]
        raise TrainingFailed(FailureCode.BAD_INPUT, f"{pointer}: {message}", pointer=pointer)
    weights = compute_label_weights(training.class_weights, classes=classes, counts=counts, num=num)
    tensor = None if weights is None else torch.tensor(weights, dtype=torch.float32, device=device)
    return partial(_binary_cross_entropy, weights=tensor, smoothing=training.label_smoothing)


def _binary_cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    weights: torch.Tensor | None,
    smoothing: float,
) -> torch.Tensor:
    """Smoothing moves every target towards 0.5, because each class has two answers."""
    smoothed = targets * (1 - smoothing) + smoothing / 2 if smoothing else targets
    return functional.binary_cross_entropy_with_logits(
        logits, smoothed.to(logits.dtype), pos_weight=weights
    )
