"""Writes what a classifier gets wrong: `evaluation.json`, and a picture of wrong images."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.views.evaluation import (
    FILE_NAME,
    PICTURE_NAME,
    ClassResult,
    Confused,
    EvaluationFile,
    Mistake,
    Tiles,
)
from worker.export.label_evaluation import find_wrong_labels
from worker.export.outputs import Outputs
from worker.export.scoring.confusion import confusion_matrix, score_classes
from worker.export.scoring.mistakes import WrongSample, find_mistakes
from worker.export.scoring.multi_label import MultiLabel
from worker.export.target import ExportTarget, Scored

COLUMNS = 20
MOST_SIDE = 96
"""Largest side of a tile in pixels; smaller images keep their size."""


def write_evaluation(target: ExportTarget, test: Scored, outputs: Outputs) -> None:
    """Write the files of a classifier; nothing for other models.

    Args:
        target: The task's model and samples.
        test: (N, classes) logits and (N,) labels of the test split; for several labels a sample
            probabilities and targets (N, classes).
        outputs: Folder of the job's files.
    """
    described = target.scoring.describe()
    classes = described.get("classes")
    if classes is None:
        return
    if isinstance(target.scoring, MultiLabel):
        _write_labels(target, target.scoring, test, outputs)
        return
    logits, labels = test
    rows = target.rows["test"]
    wrong = find_mistakes(logits, labels)
    tiles = _draw_tiles(target, rows, wrong, outputs)
    matrix = confusion_matrix(labels, logits.argmax(axis=1), num_classes=len(classes))
    scores = score_classes(matrix, classes)
    texts = _describe(target, rows, wrong)
    content = EvaluationFile(
        noun=target.samples.noun,
        classes=classes,
        num_samples=len(labels),
        num_mistakes=int((logits.argmax(axis=1) != labels).sum()),
        num_listed=len(wrong),
        per_class=[ClassResult.model_validate(vars(score)) for score in scores],
        confused=[
            Confused(true=classes[true], predicted=classes[called], num=int(matrix[true, called]))
            for true, called in np.argwhere(matrix).tolist()
        ],
        tiles=tiles,
        mistakes=[
            Mistake(
                sample=one.sample,
                true=classes[one.true],
                predicted=classes[one.predicted],
                confidence=one.confidence,
                true_confidence=one.true_confidence,
                text=text,
                tile=None if tiles is None else number,
            )
            for number, (one, text) in enumerate(zip(wrong, texts, strict=True))
        ],
    )
    outputs.path(FILE_NAME).write_text(content.model_dump_json(exclude_none=True) + "\n")
    outputs.add(FILE_NAME)


def _write_labels(
    target: ExportTarget, scoring: MultiLabel, test: Scored, outputs: Outputs
) -> None:
    rows = target.rows["test"]
    num, wrong = find_wrong_labels(*test, classes=scoring.classes, thresholds=scoring.thresholds)
    tiles = _draw_tiles(target, rows, wrong, outputs)
    content = EvaluationFile(
        noun=target.samples.noun,
        classes=scoring.classes,
        num_samples=len(rows),
        num_mistakes=num,
        num_listed=len(wrong),
        has_labels=True,
        per_class=[
            ClassResult.model_validate(
                {**vars(score), "threshold": threshold, "average_precision": precision}
            )
            for score, threshold, precision in zip(
                scoring.score_classes(*test),
                scoring.thresholds,
                _known(scoring.list_precisions(*test)),
                strict=True,
            )
        ],
        tiles=tiles,
        mistakes=[
            one.model_copy(update={"text": text, "tile": None if tiles is None else number})
            for number, (one, text) in enumerate(
                zip(wrong, _describe(target, rows, wrong), strict=True)
            )
        ],
    )
    outputs.path(FILE_NAME).write_text(content.model_dump_json(exclude_none=True) + "\n")
    outputs.add(FILE_NAME)


def _known(values: NDArray[np.float64]) -> list[float | None]:
    """Return values, None instead of NaN."""
    return [float(value) if np.isfinite(value) else None for value in values]


def _describe(
    target: ExportTarget, rows: NDArray[np.int64], wrong: Sequence[WrongSample | Mistake]
) -> list[str | None]:
    if target.describe_rows is None or not wrong:
        return [None] * len(wrong)
    return list(target.describe_rows(rows[[one.sample for one in wrong]]))


def _draw_tiles(
    target: ExportTarget,
    rows: NDArray[np.int64],
    wrong: Sequence[WrongSample | Mistake],
    outputs: Outputs,
) -> Tiles | None:
    """Draw the wrong images in rows of tiles; None if the samples are not images."""
    if target.read_pictures is None or not wrong:
        return None
    return draw_tiles(target.read_pictures(rows[[one.sample for one in wrong]]), outputs)


def draw_tiles(
    pictures: NDArray[np.uint8], outputs: Outputs, *, most_side: int = MOST_SIDE
) -> Tiles:
    """Draw pictures (N, S, S, C) in rows of tiles.

    Args:
        pictures: The pictures.
        outputs: The job's files.
        most_side: Largest side of a tile in pixels.
    """
    side = min(most_side, pictures.shape[1])
    mode = "L" if pictures.shape[3] == 1 else "RGB"
    columns = min(COLUMNS, len(pictures))
    height = -(-len(pictures) // columns) * side
    sheet = Image.new(mode, (columns * side, height))
    for number, pixels in enumerate(pictures):
        tile = Image.fromarray(pixels[:, :, 0] if mode == "L" else pixels, mode)
        if side < pictures.shape[1]:
            tile = tile.resize((side, side), Image.Resampling.BOX)
        sheet.paste(tile, (number % columns * side, number // columns * side))
    sheet.save(outputs.path(PICTURE_NAME))
    outputs.add(PICTURE_NAME)
    return Tiles(name=PICTURE_NAME, columns=columns, side=side)
