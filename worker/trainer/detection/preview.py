"""Sample predictions of a detector: pictures with the true and the found boxes."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from redkiln.predict.boxes.scores import Detections
from worker.trainer.detection.boxes import pairwise_iou
from worker.trainer.detection.evaluate import find_detections, read_targets
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.detection.selection import USUAL_THRESHOLD
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.scoring.evaluate import evaluating

TRUE_COLOUR, FOUND_COLOUR = (255, 255, 255), (255, 170, 0)
"""White and orange, which also differ in brightness."""
MATCH = 0.5
"""Smallest IoU of a found and a true box that are the same object."""


def build_detection_preview(
    detector: DetectorNetwork, samples: DetectionSamples, *, autocast: Callable[[], torch.autocast]
) -> ShowSamples:
    """Return a function that shows some validation images, or training ones without a split.

    White boxes are true, orange ones are found. An image is right if each object was found once
    and nothing else was.
    """
    split = samples.images.rows["validation" if samples.num("validation") else "train"]
    chosen = torch.tensor(spread_rows(split.tolist()))

    def show() -> list[Shown]:
        images, targets = samples.get_batch(chosen)
        with evaluating(detector), autocast():
            raw = detector(images)
        found = find_detections(detector, raw.float(), threshold=USUAL_THRESHOLD)
        pixels = samples.images.get_planes(chosen).permute(0, 2, 3, 1).cpu().numpy()
        return [
            _show(image, here, true, samples.images.classes)
            for image, here, true in zip(pixels, found, read_targets(targets), strict=True)
        ]

    return show


def is_all_found(found: Detections, truth: Detections) -> bool:
    """Return whether each object was found once, with its class, and nothing else was."""
    is_object = truth.labels >= 0
    wanted = Detections(truth.boxes[is_object], truth.scores[is_object], truth.labels[is_object])
    if len(found.labels) != len(wanted.labels):
        return False
    one, other = (torch.from_numpy(each.boxes)[None] for each in (found, wanted))
    is_same = torch.from_numpy(found.labels[:, None] == wanted.labels[None])
    matches = (pairwise_iou(one, other)[0] > MATCH) & is_same
    return bool(matches.any(dim=0).all() and matches.any(dim=1).all())


def draw_boxes(image: NDArray[np.uint8], found: Detections, truth: Detections) -> NDArray[np.uint8]:
    """Return an image (S, S, C) as (S, S, 3), true boxes in white and found ones in orange."""
    grey = image.shape[2] == 1
    picture = Image.fromarray(image[..., 0] if grey else image).convert("RGB")
    draw = ImageDraw.Draw(picture)
    width = max(1, image.shape[0] // 100)
    for each, colour in ((truth, TRUE_COLOUR), (found, FOUND_COLOUR)):
        for box in each.boxes.tolist():
            draw.rectangle(box, outline=colour, width=width)
    return np.asarray(picture)


def count_objects(detections: Detections, classes: Sequence[str]) -> str:
    """Return how many objects of each class there are, as in `2 cats, 1 dog` without the plural."""
    counts = Counter(label for label in detections.labels.tolist() if label >= 0)
    named = (f"{num} {classes[label]}" for label, num in sorted(counts.items()))
    return ", ".join(named) or "nothing"


def _show(
    image: NDArray[np.uint8], found: Detections, truth: Detections, classes: Sequence[str]
) -> Shown:
    return Shown(
        truth=count_objects(truth, classes),
        predicted=count_objects(found, classes),
        is_right=is_all_found(found, truth),
        image=draw_boxes(image, found, truth),
    )
