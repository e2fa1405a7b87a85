"""Masks that people have drawn: a folder of images with PNG masks, to score a segmenter on.

Shapes: H and W height and width of the mask, S side of the model's square, K classes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.annotations import IGNORED, MASK_FOLDER, MASK_NAMES
from redkiln.errors import ModelError
from redkiln.predict.boxes.located import LocatedPixels, LocatedPreparation
from redkiln.predict.images import SUFFIXES
from redkiln.predict.masks.coding import Mask
from redkiln.predict.masks.scores import Counts, count_pixels, find_mask_intervals, score_counts
from redkiln.views.comparison import Interval

MODES = ("L", "P", "1")


class MaskAnswers:
    """The masks of the images in a folder, which are PNG files in its folder `masks`.

    Attributes:
        paths: The images, sorted.

    Args:
        folder: Folder with the images, `masks/` and `classes.txt`.
        classes: Classes of the model.

    Raises:
        ModelError: The masks or the names of the classes are missing.
    """

    def __init__(self, folder: Path, classes: Sequence[str]) -> None:
        self._masks, self._classes = folder / MASK_FOLDER, list(classes)
        self._names = _read_names(folder / MASK_NAMES)
        self.paths = [
            path
            for path in sorted(folder.rglob("*"))
            if path.suffix.lower() in SUFFIXES
            and MASK_FOLDER not in path.relative_to(folder).parts
            and not path.name.startswith(".")
        ]
        if not self.paths or not self._masks.is_dir():
            raise ModelError(f"{folder} has no images with masks in a folder `{MASK_FOLDER}`.")

    def fit(
        self, path: str, sample: LocatedPixels, preparation: LocatedPreparation
    ) -> NDArray[np.uint8]:
        """Return the mask of an image in the model's square, (S, S).

        Raises:
            ValueError: The mask is missing or damaged, or the model does not know one of its
                classes.
        """
        mask = _read_mask(self._masks / f"{Path(path).stem}.png")
        return preparation.place_mask(self._translate(mask), sample)

    def judge(self, output: NDArray[Any], truth: NDArray[np.uint8]) -> Counts:
        """Return what `sum_up` needs of an image; see `RegionAnswers`."""
        return count_pixels(output.astype(np.uint8), truth, len(self._classes))

    def sum_up(self, judged: Sequence[Counts]) -> tuple[float, Interval | None]:
        """Return the mean IoU and its 95 % interval.

        Raises:
            ModelError: All pixels are ignored.
        """
        counts = np.stack(judged)
        if not counts.any():
            raise ModelError(
                f"All pixels of the masks are {IGNORED}, which means that they are ignored. Give "
                "pixels the values of classes."
            )
        return score_counts(counts.sum(axis=0))["miou"], find_mask_intervals(counts).get("miou")

    def _translate(self, mask: Mask) -> Mask:
        """Return the mask with the labels of the model."""
        labels = np.full(256, IGNORED, np.uint8)
        for value in np.flatnonzero(np.bincount(mask.reshape(-1), minlength=256)).tolist():
            if value == IGNORED:
                continue
            name = self._names[value] if value < len(self._names) else str(value)
            if name not in self._classes:
                listed = ", ".join(self._classes[:10])
                raise ValueError(f"{name!r} is not a class of the model ({listed})")
            labels[value] = self._classes.index(name)
        translated: Mask = labels[mask]
        return translated


def _read_names(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path} cannot be read. To score a segmenter, name a folder of images with PNG masks "
            f"in `{MASK_FOLDER}/` and {MASK_NAMES}, which names the class of each value on a line; "
            "or a data set of the service."
        ) from error


def _read_mask(path: Path) -> Mask:
    try:
        with Image.open(path, formats=("PNG",)) as image:
            if image.mode not in MODES:
                raise ValueError(f"its mask {path.name} does not have one byte a pixel")
            return np.asarray(image).astype(np.uint8)
    except FileNotFoundError:
        raise ValueError(f"it has no mask {MASK_FOLDER}/{path.name}") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"its mask {path.name} cannot be read: {error}") from error
