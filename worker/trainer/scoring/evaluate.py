"""How well a model does on a split. Sums stay on the device until the end: reading one waits."""

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
    """Mean cross-entropy (never smoothed nor weighted), accuracy, and the mean of the classes' F1.

    A class that is neither there nor predicted has no F1.

    Returns:
        `loss`, `accuracy` and `macro_f1`; None if `should_stop`, asked before each batch, said so.
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
    std: float,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """The loss on standardised targets, and errors in the target's own unit.

    Args:
        model: gives standardised values, (B,).
        batches: with standardised targets, (B,).
        loss: a mean over a batch.
        std: that a standardised value is multiplied by.
        autocast: entered for each forward pass.
        should_stop: asked before each batch.

    Returns:
        `loss`, `rmse`, `mae` and `r2` (0 where all targets are equal); None when it was stopped.
    """
    # In float64: r2 is a difference of large sums.
    sums, num = None, 0
    with evaluating(model):
        for inputs, targets in batches:
            if should_stop():
                return None
            with autocast():
                outputs = model(*as_parts(inputs)).float()
            some = _sum_errors(outputs, targets, loss(outputs, targets))
            sums = some if sums is None else sums + some
            num += len(targets)
    assert sums is not None
    loss_sum, squares, distances, total, square_total = sums.tolist()
    spread = square_total - total**2 / num
    is_constant = spread <= 1e-12 * square_total  # but for rounding
    return {
        "loss": loss_sum / num,
        "rmse": std * (squares / num) ** 0.5,
        "mae": std * distances / num,
        "r2": 0.0 if is_constant else 1 - squares / spread,
    }


class ScoringBatch:
    """How many samples are scored at once: halved, from then on, where memory is not enough.

    A training that had to split its batches would otherwise end at its first evaluation.

    Args:
        size: to begin with.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def score(self, score: Callable[[int], dict[str, float] | None]) -> dict[str, float] | None:
        """What `score` gives for batches of a size that fits; it may be called several times.

        Raises:
            torch.OutOfMemoryError: a single sample does not fit.
        """
        while True:
            try:
                return score(self.size)
            except torch.OutOfMemoryError:
                if self.size == 1:
                    raise
            # Behind the handler of the error, which keeps every tensor of the try alive.
            torch.cuda.empty_cache()
            self.size //= 2


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within it a model is scored and not trained."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _count(predicted: torch.Tensor, labels: torch.Tensor, *, num_classes: int) -> torch.Tensor:
    """Of each class: how often it was right, and how often it was there plus predicted. (2, C)."""
    counts = torch.zeros(2, num_classes, dtype=torch.int64, device=labels.device)
    ones = torch.ones_like(labels)
    counts[0].index_add_(0, labels, (predicted == labels).long())
    counts[1].index_add_(0, labels, ones).index_add_(0, predicted, ones)
    return counts


def _sum_errors(outputs: torch.Tensor, targets: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    """A batch's loss, squared and absolute errors, targets and their squares, each summed. (5,)."""
    wanted = targets.double()
    error = outputs.double() - wanted
    sums = [error.square(), error.abs(), wanted, wanted.square()]
    return torch.stack([loss.double() * len(targets), *(part.sum() for part in sums)])
