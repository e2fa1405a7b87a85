"""The masks of all images, in the squares that the model sees.

Masks that fit are on the device. Larger sets are in memory, or in a file without a name, which
disappears with the process.

Shapes: N images, B batch, S side in pixels.
"""

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import IGNORED, MaskedImage, SegmentationIndex
from redkiln.failure import FailureCode
from redkiln.predict.masks.coding import unpack_mask
from redkiln.predict.masks.fitting import to_square
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.inputs import send

DEVICE_BYTES = 1 << 30
"""Masks of at most so many bytes are kept on the device."""
MEMORY_BYTES = 2 << 30
"""Larger masks are in a file."""
THREADS = 4


def load_masks(
    index: SegmentationIndex, pixel_format: PixelFormat, *, folder: Path
) -> NDArray[np.uint8]:
    """Return the masks of all images in the order of the index, (N, S, S).

    Args:
        index: The data set.
        pixel_format: The squares.
        folder: Folder for a file without a name.

    Raises:
        TrainingFailed: a mask of the index is damaged.
    """
    images = index.splits["train"] + index.splits["test"]
    side, resize = pixel_format.size, pixel_format.resize
    assert resize != "crop"
    masks = _allocate((len(images), side, side), folder)

    def fill(place: int) -> None:
        masks[place] = _fit(images[place], side, resize)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, range(len(images))))
    return masks


def _fit(image: MaskedImage, side: int, resize: Literal["stretch", "pad"]) -> NDArray[np.uint8]:
    try:
        mask = unpack_mask(image.mask, image.mask_size)
    except ValueError as error:
        message = f"the index of the data set is damaged: {image.path}: {error}; push it again"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, path=image.path) from error
    return to_square(mask, (image.width, image.height), side, resize)


def _allocate(shape: tuple[int, ...], folder: Path) -> NDArray[np.uint8]:
    if math.prod(shape) <= MEMORY_BYTES:
        return np.empty(shape, dtype=np.uint8)
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  the map keeps it open
    return np.memmap(file, dtype=np.uint8, mode="w+", shape=shape)


class Masks:
    """Masks by row.

    Args:
        masks: (N, S, S) uint8 on the host.
        device: Device that batches are used on.
    """

    def __init__(self, masks: NDArray[np.uint8], *, device: torch.device) -> None:
        self._device = device
        self._host = torch.from_numpy(masks)
        is_resident = masks.nbytes <= DEVICE_BYTES
        self._resident = self._host.to(device) if is_resident else None

    def select(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the masks (B, S, S) uint8 of some rows, on the device."""
        if self._resident is not None:
            return self._resident.index_select(0, send(rows, self._device))
        return send(self._host.index_select(0, rows.cpu()), self._device)

    def count(self, rows: torch.Tensor, *, num_classes: int) -> list[int]:
        """Return how many pixels of each class some rows have."""
        counts = torch.zeros(IGNORED + 1, dtype=torch.int64)
        for row in rows.tolist():
            counts += torch.bincount(self._host[row].flatten().int(), minlength=IGNORED + 1)
        found: list[int] = counts[:num_classes].tolist()
        return found
