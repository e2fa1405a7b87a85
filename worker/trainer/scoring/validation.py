"""Scores a job's validation split during training and compares scores."""

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

import torch
from torch import nn

from worker.trainer.inputs import Batch
from worker.trainer.scoring.evaluate import ScoringBatch
from worker.trainer.setup import Evaluate

Score = Callable[..., dict[str, float] | None]
"""Scores a model on batches: `evaluate_classifier`, or `evaluate_regressor` with its arguments."""


class Samples(Protocol):
    """The samples of a job by split."""

    def num(self, split: Literal["validation"]) -> int:
        """Return how many there are."""

    def batches(self, split: Literal["validation"], *, batch_size: int) -> Iterable[Batch]:
        """Yield all of a split in batches; the last one may be smaller."""


def build_evaluation(
    model: nn.Module,
    samples: Samples,
    score: Score,
    *,
    batch_size: int,
    autocast: Callable[[], torch.autocast],
    names: Iterable[str],
) -> Evaluate | None:
    """Build the function that scores the validation split; None if there is no such split.

    Args:
        model: The model in training.
        samples: The job's samples.
        score: Returns metrics without the prefix `val/`.
        batch_size: Initial batch size; halved if memory runs out.
        autocast: Context for each forward pass.
        names: Names of the metrics to report, with the prefix `val/`.
    """
    if not samples.num("validation"):
        return None
    batch = ScoringBatch(batch_size)

    def evaluate(*, should_stop: Callable[[], bool]) -> dict[str, float] | None:
        scored = batch.score(
            lambda size: score(
                model,
                samples.batches("validation", batch_size=size),
                autocast=autocast,
                should_stop=should_stop,
            )
        )
        return scored and {name: scored[name.removeprefix("val/")] for name in names}

    return evaluate


def is_better_classifier(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """Return whether accuracy on the validation split is higher, or equal with a lower loss."""
    new = (metrics["val/accuracy"], -metrics["val/loss"])
    return new > (best["val/accuracy"], -best["val/loss"])
