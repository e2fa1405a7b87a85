"""Scores a model that gives each sample several labels.

Shapes: B batch, K classes.
"""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from redkiln.predict.label_metrics import score_once
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.scoring.evaluate import evaluating

LABEL_METRICS = ("val/loss", "val/accuracy", "val/macro_f1", "val/map")
"""Metrics of the validation split in each epoch."""


def evaluate_labels(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return the metrics of `redkiln.predict.label_metrics` with thresholds of 0.5.

    A metric that is undefined, such as `map` without any label, is 0.

    Returns:
        The metrics; None if `should_stop`, called before each batch, is true.
    """
    found, wanted = [], []
    with evaluating(model):
        for inputs, targets in batches:
            if should_stop():
                return None
            with autocast():
                logits = model(*as_parts(inputs))
            found.append(logits.float().sigmoid())
            wanted.append(targets)
    scores = score_once(torch.cat(found).cpu().numpy(), torch.cat(wanted).cpu().numpy())
    names = (name.removeprefix("val/") for name in LABEL_METRICS)
    return {name: scores.get(name, 0.0) for name in names}


def is_better_labeller(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """Return whether the mean average precision is higher, or equal with a lower loss."""
    new = (metrics["val/map"], -metrics["val/loss"])
    return new > (best["val/map"], -best["val/loss"])
