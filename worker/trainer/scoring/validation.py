"""How a job's validation split is scored while it trains, and which score is the better one."""

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

import torch
from torch import nn

from worker.trainer.inputs import Batch
from worker.trainer.scoring.evaluate import ScoringBatch
from worker.trainer.setup import Evaluate

Score = Callable[..., dict[str, float] | None]
"""Scores a model on batches: `evaluate_classifier`, or `evaluate_regressor` and what it is told."""


class Samples(Protocol):
    """The samples of a job, by their split."""

    def num(self, split: Literal["validation"]) -> int:
        """How many there are."""

    def batches(self, split: Literal["validation"], *, batch_size: int) -> Iterable[Batch]:
        """All of a split; the last batch may be smaller."""


def build_evaluation(
    model: nn.Module,
    samples: Samples,
    score: Score,
    *,
    batch_size: int,
    autocast: Callable[[], torch.autocast],
    names: Iterable[str],
) -> Evaluate | None:
    """What scores the model on the validation split; None where no such split was asked for.

    Args:
        model: as it is trained.
        samples: of the job.
        score: gives metrics without `val/`.
        batch_size: to begin with; smaller where memory is not enough.
        autocast: entered for each forward pass.
        names: of the metrics that are told, with `val/`.
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
    """Higher validation accuracy wins, then lower validation loss."""
    new = (metrics["val/accuracy"], -metrics["val/loss"])
    return new > (best["val/accuracy"], -best["val/loss"])
