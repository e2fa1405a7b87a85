"""Sample predictions of a detector: pictures with the true and the found boxes."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from redkiln.predict.boxes.joined import drop_crowds
from redkiln.predict.boxes.matching import SAME_OBJECT, choose_threshold, is_in_crowd, match
from redkiln.predict.boxes.scores import Detections
from worker.trainer.detection.evaluate import find_detections, read_targets
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.detection.selection import USUAL_THRESHOLD
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.scoring.evaluate import evaluating

TRUE_COLOUR, RIGHT_COLOUR, WRONG_COLOUR = (255, 255, 255), (255, 170, 0), (200, 0, 40)
"""White, orange and red, which also differ in brightness."""
LEAST_SHOWN = 0.1
"""Smallest score of a box in a preview: until a detector has learnt something, it shows none."""


def build_detection_preview(
    detector: DetectorNetwork, samples: DetectionSamples, *, autocast: Callable[[], torch.autocast]
) -> ShowSamples:
    """Return a function that shows some validation images, or training ones without a split.

    White boxes are true, orange ones are found, and red ones are found and wrong. Boxes are shown
    from the score on that has the highest F1 on these images, because scores are low at first. An
    image is right if each object was found once and nothing else was.
    """
    split = samples.images.rows["validation" if samples.num("validation") else "train"]
    chosen = torch.tensor(spread_rows(split.tolist()))

    def show() -> list[Shown]:
        images, targets = samples.get_batch(chosen)
        with evaluating(detector), autocast():
            raw = detector(images)
        found = find_detections(detector, raw.float(), threshold=LEAST_SHOWN)
        truth = read_targets(targets)
        least = choose_threshold(found, truth, usual=USUAL_THRESHOLD)
        pixels = samples.images.get_planes(chosen).permute(0, 2, 3, 1).cpu().numpy()
        return [
            _show(image, _keep(here, least), true, samples.images.classes)
            for image, here, true in zip(pixels, found, truth, strict=True)
        ]

    return show


def find_right(found: Detections, truth: Detections) -> NDArray[np.bool_]:
    """Return which found boxes (F,) are an object, each of which is found at most once."""
    return match(found, drop_crowds(truth), least_iou=SAME_OBJECT) >= 0


def draw_boxes(image: NDArray[np.uint8], found: Detections, truth: Detections) -> NDArray[np.uint8]:
    """Return an image (S, S, C) as (S, S, 3): true boxes white, found ones orange, wrong ones red.

    A box of a group of objects is not a mistake.
    """
    grey = image.shape[2] == 1
    picture = Image.fromarray(image[..., 0] if grey else image).convert("RGB")
    draw = ImageDraw.Draw(picture)
    width = max(1, image.shape[0] // 100)
    is_right = find_right(found, truth) | is_in_crowd(found, truth)
    for boxes, colour in (
        (truth.boxes, TRUE_COLOUR),
        (found.boxes[~is_right], WRONG_COLOUR),
        (found.boxes[is_right], RIGHT_COLOUR),
    ):
        for box in boxes.tolist():
            draw.rectangle(box, outline=colour, width=width)
    return np.asarray(picture)


def count_objects(detections: Detections, classes: Sequence[str]) -> str:
    """Return how many objects of each class there are, as in `2 cats, 1 dog` without the plural."""
    counts = Counter(label for label in detections.labels.tolist() if label >= 0)
    named = (f"{num} {classes[label]}" for label, num in sorted(counts.items()))
    return ", ".join(named) or "nothing"


def _keep(found: Detections, least: float) -> Detections:
    """Return the boxes whose score is at least `least`."""
    some = found.scores >= least
    return Detections(found.boxes[some], found.scores[some], found.labels[some])


def _show(
    image: NDArray[np.uint8], found: Detections, truth: Detections, classes: Sequence[str]
) -> Shown:
    right = int(find_right(found, truth).sum())
    return Shown(
        truth=count_objects(truth, classes),
        predicted=count_objects(found, classes),
        is_right=len(found.labels) == right == len(drop_crowds(truth).labels),
        image=draw_boxes(image, found, truth),
    )
