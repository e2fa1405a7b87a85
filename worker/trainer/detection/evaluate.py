"""Scores a detector on a split.

Shapes: B batch, M most objects of an image in the batch.
"""

from collections.abc import Callable, Iterable

import torch

from redkiln.predict.boxes.scores import METRICS, Detections, score_detections
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.objects import NOTHING
from worker.trainer.detection.selection import SCORED_THRESHOLD
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluating

DETECTION_METRICS = ("val/loss", *(f"val/{name}" for name in METRICS))
"""Metrics of the validation split in each epoch."""


def evaluate_detector(
    detector: DetectorNetwork,
    batches: Iterable[Batch],
    *,
    loss: Loss,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return the mean loss and COCO's average precision.

    Args:
        detector: The detector.
        batches: Images with targets (B, M, 5).
        loss: Mean loss of a batch.
        autocast: Context for each forward pass.
        should_stop: Called before each batch.

    Returns:
        `loss`, `map`, `map50` and `map75`; None if stopped.
    """
    losses, found, truth, num = [], [], [], 0
    with evaluating(detector):
        for inputs, targets in batches:
            if should_stop():
                return None
            with autocast():
                raw = detector(*as_parts(inputs))
            raw = raw.float()
            losses.append(loss(raw, targets) * len(targets))
            found += find_detections(detector, raw, threshold=SCORED_THRESHOLD)
            truth += read_targets(targets)
            num += len(targets)
    scores = score_detections(found, truth, num_classes=detector.num_classes)
    return {"loss": float(torch.stack(losses).sum()) / num, **scores}


def find_detections(
    detector: DetectorNetwork, raw: torch.Tensor, *, threshold: float
) -> list[Detections]:
    """Return what a detector found in each image of a batch, from its output (B, A, ...)."""
    parts = detector.find_boxes(raw, threshold=threshold)
    boxes, scores, labels = (part.cpu().numpy() for part in parts)
    is_found = labels >= 0
    return [
        Detections(boxes[place][some], scores[place][some], labels[place][some])
        for place, some in enumerate(is_found)
    ]


def read_targets(targets: torch.Tensor) -> list[Detections]:
    """Return the objects of each image of a batch, from its targets (B, M, 5)."""
    tables = targets.cpu().numpy()
    truth = []
    for table in tables:
        rows = table[table[:, 0] != NOTHING]
        truth.append(Detections(rows[:, 1:], rows[:, 0] * 0 + 1, rows[:, 0].astype("int64")))
    return truth


def is_better_detector(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """Return whether the mean average precision is higher, or equal with a lower loss."""
    new = (metrics["val/map"], -metrics["val/loss"])
    return new > (best["val/map"], -best["val/loss"])
