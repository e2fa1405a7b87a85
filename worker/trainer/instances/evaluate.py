"""Scores a network that finds masks of objects on a split.

Shapes: B batch, M reported objects of an image.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from redkiln.predict.boxes.scores import METRICS, Detections, score_detections
from redkiln.predict.instances.joined import list_objects
from worker.trainer.detection.selection import SCORED_THRESHOLD
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.instances.detector import InstanceDetector
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluating

BOX_METRICS = {f"box_{name}": name for name in METRICS}
INSTANCE_METRICS = ("val/loss", *(f"val/{name}" for name in (*METRICS, *BOX_METRICS)))
"""Metrics of the validation split in each epoch; those of masks have no prefix."""


def evaluate_instances(
    detector: InstanceDetector,
    batches: Iterable[Batch],
    *,
    loss: Loss,
    list_truth: Callable[[], Sequence[Detections]],
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Return the mean loss, and COCO's average precision of masks and of boxes.

    Args:
        detector: The network.
        batches: Images with targets.
        loss: Mean loss of a batch.
        list_truth: Returns the objects of all images in their order.
        autocast: Context for each forward pass.
        should_stop: Called before each batch.

    Returns:
        Metrics by name without `val/`; None if stopped.
    """
    losses: list[float] = []
    found: list[Detections] = []
    # The loss looks at random points: always the same ones, and without a trace in the training.
    devices = [next(detector.parameters()).device]
    kept = [one for one in devices if one.type != "cpu"]
    with evaluating(detector), torch.random.fork_rng(kept, device_type=devices[0].type):
        torch.manual_seed(0)
        for inputs, targets in batches:
            if should_stop():
                return None
            with autocast():
                raw = detector(*as_parts(inputs))
            losses += [float(loss(raw.float(), targets))] * len(targets)
            found += find_masks(detector, raw.float(), threshold=SCORED_THRESHOLD)
    scores = score_both(found, list_truth(), num_classes=detector.num_classes)
    return {"loss": float(np.mean(losses)), **scores}


def find_masks(
    detector: InstanceDetector, raw: torch.Tensor, *, threshold: float
) -> list[Detections]:
    """Return the objects found in each image of a batch, from its output."""
    parts = detector.find_instances(raw, threshold=threshold)
    return list(list_objects([part.cpu().numpy() for part in parts], side=detector.image_size))


def score_both(
    found: Sequence[Detections],
    truth: Sequence[Detections],
    *,
    num_classes: int,
    by_size: bool = False,
) -> dict[str, float]:
    """Return the average precisions of masks, and those of boxes with the prefix `box_`."""
    pair = found, truth
    masks = score_detections(*pair, num_classes=num_classes, by_size=by_size, kind="segm")
    boxes = score_detections(*pair, num_classes=num_classes)
    return masks | {ours: boxes[name] for ours, name in BOX_METRICS.items()}
