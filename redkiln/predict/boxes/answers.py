"""Boxes that people have drawn: a folder of images with a COCO file, to score a detector on.

Shapes: M boxes of an image.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from redkiln import coco
from redkiln.errors import ModelError
from redkiln.predict.boxes.intervals import RESAMPLED_SCORE, find_box_intervals
from redkiln.predict.boxes.joined import list_found
from redkiln.predict.boxes.located import LocatedPixels, LocatedPreparation
from redkiln.predict.boxes.scores import CROWD, Detections, Kind, score_detections
from redkiln.views.comparison import Interval

Judged = tuple[Detections, Detections]
"""Result for an image, and its objects, in pixels of the model's square."""


class BoxAnswers:
    """The objects of the images in a folder, by its COCO file.

    Attributes:
        paths: Images that the file names, in its order.
        kind: Kind of thing that is scored.

    Args:
        folder: Folder with the images and the file.
        classes: Classes of the model.

    Raises:
        ModelError: The file is missing or damaged.
    """

    kind: Kind = "bbox"

    def __init__(self, folder: Path, classes: Sequence[str]) -> None:
        file = _read(folder / coco.NAME)
        self._classes = list(classes)
        self._names = {one.id: one.name for one in file.categories}
        self.paths = [folder / one.file_name for one in file.images]
        self._ids = {str(folder / one.file_name): one.id for one in file.images}
        self._objects: dict[int | str, list[coco.CocoObject]] = {}
        for one in file.annotations:
            self._objects.setdefault(one.image_id, []).append(one)

    def fit(self, path: str, sample: LocatedPixels, preparation: LocatedPreparation) -> Detections:
        """Return the objects of an image in pixels of the model's square.

        Raises:
            ValueError: The model does not know the class of an object.
        """
        objects = self.list_objects(path)
        corners = np.array([one.bbox for one in objects], np.float64).reshape(-1, 4)
        corners[:, 2:] += corners[:, :2]
        return self.place(objects, corners, sample, preparation)

    def list_objects(self, path: str) -> list[coco.CocoObject]:
        """Return the objects of an image as the file has them."""
        return self._objects.get(self._ids[path], [])

    def place(
        self,
        objects: Sequence[coco.CocoObject],
        corners: NDArray[np.float64],
        sample: LocatedPixels,
        preparation: LocatedPreparation,
    ) -> Detections:
        """Return the classes of objects with their boxes (M, 4) in pixels of the square.

        Raises:
            ValueError: The model does not know the class of an object.
        """
        labels = [CROWD if one.iscrowd else self._find_label(one) for one in objects]
        boxes = preparation.place(corners, sample).astype(np.float32)
        return Detections(boxes, np.ones(len(labels), np.float32), np.array(labels, np.int64))

    def judge(self, output: Any, truth: Detections) -> Judged:
        """Return what `sum_up` needs of an image; see `RegionAnswers`."""
        return list_found(output[None])[0], truth

    def sum_up(self, judged: Sequence[Judged]) -> tuple[float, Interval | None]:
        """Return the mean average precision and its 95 % interval.

        Raises:
            ModelError: No image has an object.
        """
        truth = [one for _, one in judged]
        if not any((one.labels >= 0).any() for one in truth):
            raise ModelError(
                f"No usable image in {coco.NAME} has an object. Add annotations of objects."
            )
        found = [one for one, _ in judged]
        sure = [one.select(one.scores >= RESAMPLED_SCORE) for one in found]
        num, kind = len(self._classes), self.kind
        metric = score_detections(found, truth, num_classes=num, kind=kind)["map"]
        return metric, find_box_intervals(sure, truth, num_classes=num, kind=kind).get("map")

    def _find_label(self, one: coco.CocoObject) -> int:
        name = self._names.get(one.category_id, str(one.category_id))
        if name not in self._classes:
            listed = ", ".join(self._classes[:10])
            raise ValueError(f"{name!r} is not a class of the model ({listed})")
        return self._classes.index(name)


def _read(path: Path) -> coco.CocoFile:
    try:
        return coco.CocoFile.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} does not exist. To score a detector, name a folder of images with a COCO file "
            f"{coco.NAME}, or a data set of the service."
        ) from error
    except (OSError, ValidationError) as error:
        raise ModelError(f"{path} cannot be read as COCO: {error}") from error
