"""Writes what a detector gets wrong: `evaluation.json`, and a picture of the worst images.

Shapes: N images, M reported boxes of an image, G most objects of an image.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import drop_crowds, list_found, list_truth
from redkiln.predict.boxes.scores import Detections
from redkiln.views.evaluation import FILE_NAME, ClassResult, EvaluationFile, Mistake
from worker.export.evaluation_file import draw_tiles
from worker.export.outputs import Outputs
from worker.export.target import ExportTarget, Scored
from worker.tasks.object_detection.scoring import DetectionScoring, judge_boxes
from worker.trainer.detection.preview import count_objects

MOST_IMAGES = 100
"""Images in the picture, the worst first."""


@dataclass(frozen=True)
class WrongImage:
    """An image with wrong boxes, or with objects that were missed.

    Attributes:
        place: Its position in the test split.
        num_wrong: Boxes without an object, and objects without a box.
        score: Highest score of a wrong box; 0 if objects are only missed.
        recall: Share of its objects that are found.
    """

    place: int
    num_wrong: int
    score: float
    recall: float


def write_detection_evaluation(target: ExportTarget, test: Scored, outputs: Outputs) -> None:
    """Write `evaluation.json`, and `mistakes.png` if an image has a mistake.

    Args:
        target: The task's model and samples.
        test: Boxes (N, M, 6) and objects (N, G, 5) of the test split.
        outputs: The job's files.
    """
    scoring = target.scoring
    assert isinstance(scoring, DetectionScoring)
    found, truth = list_found(test[0], threshold=scoring.threshold), list_truth(test[1])
    wrong = find_wrong_images(found, truth)
    listed = wrong[:MOST_IMAGES]
    rows = target.rows["test"][[one.place for one in listed]]
    here = [(found[one.place], truth[one.place]) for one in listed]
    tiles = None
    if listed and target.read_pictures is not None:
        tiles = draw_tiles(
            _draw(scoring, target.read_pictures(rows), here), outputs, most_side=scoring.tile_side
        )
    texts = target.describe_rows(rows) if target.describe_rows and listed else [None] * len(listed)
    content = EvaluationFile(
        noun=target.samples.noun,
        classes=scoring.classes,
        num_samples=len(found),
        num_mistakes=len(wrong),
        num_listed=len(listed),
        has_boxes=True,
        threshold=scoring.threshold,
        per_class=[
            ClassResult.model_validate(asdict(score)) for score in scoring.score_classes(*test)
        ],
        tiles=tiles,
        mistakes=[
            Mistake(
                sample=one.place,
                true=count_objects(true, scoring.classes),
                predicted=count_objects(seen, scoring.classes),
                confidence=round(one.score, 6),
                true_confidence=round(one.recall, 6),
                text=text,
                tile=None if tiles is None else number,
            )
            for number, (one, (seen, true), text) in enumerate(
                zip(listed, here, texts, strict=True)
            )
        ],
    )
    outputs.path(FILE_NAME).write_text(content.model_dump_json(exclude_none=True) + "\n")
    outputs.add(FILE_NAME)


def find_wrong_images(found: list[Detections], truth: list[Detections]) -> list[WrongImage]:
    """Return the images with mistakes, those with the most first, then the most confident."""
    wrong = []
    for place, (here, true) in enumerate(zip(found, truth, strict=True)):
        objects = drop_crowds(true)
        is_right, counted = judge_boxes(here, true)
        num, right = len(objects.labels), int(is_right.sum())
        is_wrong = counted & ~is_right
        if is_wrong.any() or right < num:
            score = float(here.scores[is_wrong].max()) if is_wrong.any() else 0.0
            num_wrong = int(is_wrong.sum()) + num - right
            wrong.append(WrongImage(place, num_wrong, score, right / num if num else 1.0))
    return sorted(wrong, key=lambda one: (-one.num_wrong, -one.score))


def _draw(
    scoring: DetectionScoring,
    pictures: NDArray[np.uint8],
    here: list[tuple[Detections, Detections]],
) -> NDArray[np.uint8]:
    """Return square pictures with the found and the true objects."""
    return np.stack(
        [scoring.draw_image(pixels, *pair) for pixels, pair in zip(pictures, here, strict=True)]
    )
