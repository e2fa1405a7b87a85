"""Writes what a segmenter gets wrong: `evaluation.json`, and a picture of the worst images.

Shapes: N images, S side in pixels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.masks.drawing import overlay
from redkiln.predict.masks.scores import count_pixels, score_counts
from redkiln.views.evaluation import FILE_NAME, ClassResult, EvaluationFile, Mistake
from worker.export.evaluation_file import draw_tiles
from worker.export.outputs import Outputs
from worker.export.target import ExportTarget, Scored
from worker.tasks.semantic_segmentation.scoring import SegmentationScoring
from worker.trainer.segmentation.preview import draw_pair, name_pixels

MOST_IMAGES = 60
"""Images in the picture, the worst first."""
MOST_SIDE = 256
"""Largest side of a tile in pixels."""
WRONG = np.array([255, 40, 40], dtype=np.uint8)
"""Colour of wrong pixels."""


@dataclass(frozen=True)
class WrongImage:
    """An image with wrong pixels.

    Attributes:
        place: Its position in the test split.
        miou: Mean IoU of the classes in it.
        wrong: Share of its pixels that are wrong.
    """

    place: int
    miou: float
    wrong: float


def write_segmentation_evaluation(target: ExportTarget, test: Scored, outputs: Outputs) -> None:
    """Write `evaluation.json`, and `mistakes.png` if an image has a wrong pixel.

    Args:
        target: The task's model and samples.
        test: Found and true masks (N, S, S) of the test split.
        outputs: The job's files.
    """
    scoring = target.scoring
    assert isinstance(scoring, SegmentationScoring)
    found, truth = test[0].astype(np.uint8), test[1]
    wrong = find_wrong_masks(found, truth, num_classes=len(scoring.classes))
    listed = wrong[:MOST_IMAGES]
    places = [one.place for one in listed]
    rows = target.rows["test"][places]
    tiles = None
    if listed and target.read_pictures is not None:
        pictures = zip(target.read_pictures(rows), truth[places], found[places], strict=True)
        num_classes = len(scoring.classes)
        drawn = np.stack([draw_four(*one, num_classes=num_classes) for one in pictures])
        tiles = draw_tiles(drawn, outputs, most_side=MOST_SIDE)
    texts = target.describe_rows(rows) if target.describe_rows and listed else [None] * len(listed)
    content = EvaluationFile(
        noun=target.samples.noun,
        classes=scoring.classes,
        num_samples=len(found),
        num_mistakes=len(wrong),
        num_listed=len(listed),
        has_masks=True,
        per_class=[
            ClassResult(
                name=one.name,
                num=one.num,
                precision=one.precision,
                recall=one.recall,
                f1=one.dice,
                iou=one.iou,
            )
            for one in scoring.score_classes(*test)
        ],
        tiles=tiles,
        mistakes=[
            Mistake(
                sample=one.place,
                true=name_pixels(truth[one.place], scoring.classes),
                predicted=name_pixels(found[one.place], scoring.classes),
                confidence=round(one.wrong, 6),
                true_confidence=round(one.miou, 6),
                text=text,
                tile=None if tiles is None else number,
            )
            for number, (one, text) in enumerate(zip(listed, texts, strict=True))
        ],
    )
    outputs.path(FILE_NAME).write_text(content.model_dump_json(exclude_none=True) + "\n")
    outputs.add(FILE_NAME)


def find_wrong_masks(
    found: NDArray[np.uint8], truth: NDArray[np.uint8], *, num_classes: int
) -> list[WrongImage]:
    """Return the images with wrong pixels, the lowest mean IoU first."""
    wrong = []
    for place, (one, other) in enumerate(zip(found, truth, strict=True)):
        scores = score_counts(count_pixels(one, other, num_classes))
        if (other != IGNORED).any() and scores["pixel_accuracy"] < 1:
            wrong.append(WrongImage(place, scores["miou"], 1 - scores["pixel_accuracy"]))
    return sorted(wrong, key=lambda image: image.miou)


def draw_four(
    image: NDArray[np.uint8],
    truth: NDArray[np.uint8],
    found: NDArray[np.uint8],
    *,
    num_classes: int,
) -> NDArray[np.uint8]:
    """Return (2 S, 2 S, 3): the image, its wrong pixels, its true mask, and the found one."""
    plain = overlay(image, np.zeros_like(truth), num_classes=num_classes)
    is_wrong = (truth != IGNORED) & (truth != found)
    marked = np.where(is_wrong[..., None], WRONG, plain // 2)
    above = np.concatenate([plain, marked], axis=1)
    below = draw_pair(image, truth, found, num_classes=num_classes)
    return np.concatenate([above, below], axis=0)
