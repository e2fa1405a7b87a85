"""Scores a model on a split. Sums stay on the device until the end, because reading one waits.

Shapes: B batch, C classes.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional

from worker.trainer.inputs import Batch, as_parts


def evaluate_classifier(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return mean cross-entropy (neither smoothed nor weighted), accuracy and macro F1.

    A class that neither occurs nor is predicted does not count towards macro F1.

    Returns:
        `loss`, `accuracy` and `macro_f1`; None if `should_stop`, called before each batch, is true.
    """
    loss_sum, counts, num = None, None, 0
    with evaluating(model):
        for inputs, labels in batches:
            if should_stop():
                return None
            with autocast():
                logits = model(*as_parts(inputs))
            loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
            counted = _count(logits.argmax(dim=1), labels, num_classes=logits.shape[1])
            loss_sum = loss if loss_sum is None else loss_sum + loss
            counts = counted if counts is None else counts + counted
            num += len(labels)
    assert loss_sum is not None
    assert counts is not None
    right, both = counts.tolist()
    f1 = [2 * hit / size for hit, size in zip(right, both, strict=True) if size]
    return {
        "loss": float(loss_sum) / num,
        "accuracy": sum(right) / num,
        "macro_f1": sum(f1) / len(f1),
    }


def evaluate_regressor(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    restore: Callable[[torch.Tensor], torch.Tensor],
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return the loss on standardised targets, and errors in the target's own unit.

    Args:
        model: Returns standardised values, (B,).
        batches: Batches with standardised targets, (B,).
        loss: Mean loss of a batch.
        restore: Turns standardised values (B,) into the target's unit.
        autocast: Context for each forward pass.
        should_stop: Called before each batch.

    Returns:
        `loss`, `rmse`, `mae` and `r2` (0 if all targets are equal); None if stopped.
    """
    # In float64: r2 is a difference of sums.
    sums, num = None, 0
    with evaluating(model):
        for inputs, targets in batches:
            if should_stop():
                return None
            with autocast():
                outputs = model(*as_parts(inputs)).float()
            mean_loss = loss(outputs, targets)
            some = _sum_errors(outputs.double(), targets.double(), mean_loss, restore)
            sums = some if sums is None else sums + some
            num += len(targets)
    assert sums is not None
    loss_sum, squares, distances, total, square_total = sums.tolist()
    spread = square_total - total**2 / num
    is_constant = spread <= 1e-12 * square_total  # apart from rounding
    return {
        "loss": loss_sum / num,
        "rmse": (squares / num) ** 0.5,
        "mae": distances / num,
        "r2": 0.0 if is_constant else 1 - squares / spread,
    }


class ScoringBatch:
    """Number of samples scored at once; halved permanently whenever memory runs out.

    Otherwise a training that had to split its batches would fail at its first evaluation.

    Args:
        size: Initial number of samples.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def score(self, score: Callable[[int], dict[str, float] | None]) -> dict[str, float] | None:
        """Call `score` with smaller and smaller batch sizes until one fits, and return its result.

        Raises:
            torch.OutOfMemoryError: a single sample does not fit.
        """
        while True:
            try:
                return score(self.size)
            except torch.OutOfMemoryError:
                if self.size == 1:
                    raise
            # Outside the handler of the error, which keeps every tensor of the attempt alive.
            torch.cuda.empty_cache()
            self.size //= 2


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode without gradients, and restore its mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _count(predicted: torch.Tensor, labels: torch.Tensor, *, num_classes: int) -> torch.Tensor:
    """Count, for each class, correct predictions, and occurrences plus predictions. (2, C)."""
    counts = torch.zeros(2, num_classes, dtype=torch.int64, device=labels.device)
    ones = torch.ones_like(labels)
    counts[0].index_add_(0, labels, (predicted == labels).long())
    counts[1].index_add_(0, labels, ones).index_add_(0, predicted, ones)
    return counts


def _sum_errors(
    outputs: torch.Tensor,
    targets: torch.Tensor,
    loss: torch.Tensor,
    restore: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Sum a batch's loss, squared and absolute errors, targets and squared targets. (5,).

    Targets are counted from the middle, because r2 is a difference of their sums.
    """
    wanted = restore(targets)
    error = restore(outputs) - wanted
    shifted = wanted - restore(torch.zeros_like(targets))
    sums = [error.square(), error.abs(), shifted, shifted.square()]
    return torch.stack([loss.double() * len(targets), *(part.sum() for part in sums)])
