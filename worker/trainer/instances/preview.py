"""Sample predictions: pictures with the true and the found masks of objects side by side."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import drop_crowds
from redkiln.predict.boxes.matching import SAME_OBJECT, match
from redkiln.predict.boxes.scores import Detections
from redkiln.predict.instances.drawing import draw_detections
from worker.trainer.detection.preview import count_objects
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.detection.selection import USUAL_THRESHOLD
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.instances.detector import InstanceDetector
from worker.trainer.instances.evaluate import find_masks
from worker.trainer.scoring.evaluate import evaluating


def build_instance_preview(
    detector: InstanceDetector, samples: DetectionSamples, *, autocast: Callable[[], torch.autocast]
) -> ShowSamples:
    """Return a function that shows some validation images, or training ones without a split.

    The true masks are on the left, the found ones on the right. An image is right if each object
    was found once and nothing else was.
    """
    split = samples.images.rows["validation" if samples.num("validation") else "train"]
    chosen = spread_rows(split.tolist())

    def show() -> list[Shown]:
        images, _ = samples.get_batch(torch.tensor(chosen))
        with evaluating(detector), autocast():
            raw = detector(images)
        found = find_masks(detector, raw.float(), threshold=USUAL_THRESHOLD)
        planes = samples.images.get_planes(torch.tensor(chosen))
        pixels = planes.permute(0, 2, 3, 1).cpu().numpy()
        truth = [samples.objects.get_truth(row) for row in chosen]
        return [
            _show(image, here, true, samples.images.classes)
            for image, here, true in zip(pixels, found, truth, strict=True)
        ]

    return show


def draw_pair(image: NDArray[np.uint8], found: Detections, truth: Detections) -> NDArray[np.uint8]:
    """Return an image (S, S, C) twice, with its true and its found objects, as (S, 2 S, 3)."""
    return np.concatenate([draw_detections(image, each) for each in (truth, found)], axis=1)


def _show(
    image: NDArray[np.uint8], found: Detections, truth: Detections, classes: Sequence[str]
) -> Shown:
    wanted = drop_crowds(truth)
    num_right = int((match(found, wanted, least_iou=SAME_OBJECT) >= 0).sum())
    return Shown(
        truth=count_objects(truth, classes),
        predicted=count_objects(found, classes),
        is_right=num_right == len(wanted.labels) == len(found.labels),
        image=draw_pair(image, found, truth),
    )
