"""Scores a detector or segmenter on images whose boxes or masks are known.

Everything is compared in the model's square, as the export does, so the test split of a job gives
the job's metric.

Shapes: S side of the square.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from redkiln.errors import ModelError
from redkiln.predict.boxes.answers import BoxAnswers
from redkiln.predict.boxes.located import LocatedPixels, LocatedPreparation
from redkiln.predict.images import INPUT
from redkiln.predict.instances.answers import InstanceAnswers
from redkiln.predict.items import Skipped
from redkiln.predict.masks.answers import MaskAnswers
from redkiln.predict.model import Model
from redkiln.predict.verify import feed, read_outputs
from redkiln.views.comparison import Interval


class RegionAnswers(Protocol):
    """What is known about the images of a folder.

    Attributes:
        paths: The images.
    """

    paths: list[Path]

    def fit(self, path: str, sample: LocatedPixels, preparation: LocatedPreparation) -> Any:
        """Return the truth of an image in the model's square; ValueError if it has none."""

    def judge(self, output: Any, truth: Any) -> Any:
        """Return what has to be kept of an image, from the model's output and the truth."""

    def sum_up(self, judged: Sequence[Any]) -> tuple[float, Interval | None]:
        """Return the metric of all images, and its 95 % interval."""


@dataclass(frozen=True)
class RegionScore:
    """The score of a detector or segmenter.

    Attributes:
        metric: Mean average precision, or mean IoU, from 0 to 1.
        interval: Its 95 % interval; None if it is unknown.
    """

    num_samples: int
    skipped: list[Skipped]
    metric: float
    interval: Interval | None


def score_regions(model: Model, folder: Path) -> RegionScore:
    """Predict the images of a folder and score the boxes or masks.

    Raises:
        ModelError: The folder has no answers, or none of them can be used.
    """
    answers, preparation = open_answers(model, folder), model.preparation
    assert isinstance(preparation, LocatedPreparation)
    judged: list[Any] = []
    skipped: list[Skipped] = []
    for batch in model.read_batches(map(preparation.item, answers.paths)):
        usable: list[tuple[LocatedPixels, Any]] = []
        for name, sample in batch:
            if isinstance(sample, Skipped):
                skipped.append(sample)
                continue
            try:
                usable.append((sample, answers.fit(name, sample, preparation)))
            except ValueError as error:
                skipped.append(Skipped(name, str(error)))
        judged += _judge(answers, model, usable)
    if not judged:
        reason = skipped[0].reason if skipped else "it is empty"
        raise ModelError(f"No image of {folder} can be used: {reason}")
    return RegionScore(len(judged), skipped, *answers.sum_up(judged))


def open_answers(model: Model, folder: Path) -> RegionAnswers:
    """Return the boxes or masks of a folder, for a detector or a segmenter.

    Raises:
        ModelError: The folder has none.
    """
    known = model.description
    if known.mask_square is not None:
        return InstanceAnswers(folder, known.classes)
    if known.detection is not None:
        return BoxAnswers(folder, known.classes)
    return MaskAnswers(folder, known.classes)


def _judge(
    answers: RegionAnswers, model: Model, usable: list[tuple[LocatedPixels, Any]]
) -> list[Any]:
    if not usable:
        return []
    pixels = {INPUT: np.stack([sample.pixels for sample, _ in usable])}
    known = model.description
    outputs = read_outputs(model.session, known, feed(known, pixels))
    return [
        answers.judge(output, truth) for output, (_, truth) in zip(outputs, usable, strict=True)
    ]
