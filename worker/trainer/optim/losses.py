"""The loss of a classifier: cross-entropy, smoothed and weighted by class according to its spec."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.nn import functional

from redkiln.failure import FailureCode
from redkiln.spec.class_weights import (
    ClassifierTraining,
    compute_class_weights,
    find_weight_problems,
)
from worker.process.failed import TrainingFailed

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def build_classifier_loss(
    training: ClassifierTraining,
    *,
    classes: Sequence[str],
    counts: Sequence[int],
    device: torch.device,
) -> Loss:
    """Build the function for the mean loss of a batch's logits (B, K) and labels (B,).

    Args:
        training: Training section of the spec.
        classes: Names by label.
        counts: Training samples of each class.
        device: Device that the loss is computed on.

    Raises:
        TrainingFailed: the spec's class weights do not fit the classes.
    """
    problems = find_weight_problems(training.class_weights, classes)
    if problems:
        pointer, message = problems[0]
        raise TrainingFailed(FailureCode.BAD_INPUT, f"{pointer}: {message}", pointer=pointer)
    weights = compute_class_weights(training.class_weights, classes=classes, counts=counts)
    if weights is None:
        return partial(functional.cross_entropy, label_smoothing=training.label_smoothing)
    tensor = torch.tensor(weights, dtype=torch.float32, device=device)
    return partial(_weighted, weights=tensor, smoothing=training.label_smoothing)


def count_classes(labels: torch.Tensor, *, num_classes: int) -> list[int]:
    """Count the samples of each class among labels (N,)."""
    counts: list[int] = torch.bincount(labels, minlength=num_classes).tolist()
    return counts


def _weighted(
    logits: torch.Tensor, labels: torch.Tensor, *, weights: torch.Tensor, smoothing: float
) -> torch.Tensor:
    # Divide by the number of samples, not by the weights in the batch. The parts of a split batch
    # then add up to the whole, and a batch with rare classes counts more than one without.
    total = functional.cross_entropy(
        logits, labels, weight=weights, reduction="sum", label_smoothing=smoothing
    )
    return total / len(labels)
