"""Reads chosen rows of a decoded set into a buffer without mapping the file.

A mapped file counts as resident memory once read, and a disk that disappears under it kills the
process with SIGBUS. Plain reads avoid both.

Shapes: N images, B batch, C channels, S side in pixels.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed


class Rows(Protocol):
    """Decoded images, read by row."""

    def read(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        """Write the rows' planes into `out`, (B, C, S, S) uint8.

        Raises:
            TrainingFailed: a row cannot be read; the message names the row and the file.
        """

    def close(self) -> None:
        """Release the file or processes; no more rows are read."""


class FileRows:
    """Rows of an array file (.npy).

    Raises:
        TrainingFailed: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise self._failed(0, str(error)) from error
        version = np.lib.format.read_magic(self._file)
        assert version == (1, 0)
        shape, _, dtype = np.lib.format.read_array_header_1_0(self._file)
        assert dtype == np.uint8
        self._start = self._file.tell()
        self._row_bytes = int(np.prod(shape[1:]))

    def read(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        """See `Rows`."""
        descriptor, start, size = self._file.fileno(), self._start, self._row_bytes
        target = out.reshape(-1).data
        for place, row in enumerate(rows):
            piece = target[place * size : (place + 1) * size]
            try:
                num_read = os.preadv(descriptor, [piece], start + row * size)
            except OSError as error:
                raise self._failed(row, str(error)) from error
            if num_read != size:
                raise self._failed(row, "the file ends before this row")

    def close(self) -> None:
        """See `Rows`."""
        self._file.close()

    def _failed(self, row: int, why: str) -> TrainingFailed:
        message = (
            f"row {row} of the decoded images ({self._path}) cannot be read: {why}. Check the "
            "worker's disk. If the file is gone, the next attempt decodes the images again"
        )
        return TrainingFailed(
            FailureCode.DATASET_UNAVAILABLE, message, file=str(self._path), row=row
        )


class ArrayRows:
    """Rows of an array in memory, (N, C, S, S) uint8."""

    def __init__(self, planes: NDArray[np.uint8]) -> None:
        self._planes = planes

    def read(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        """See `Rows`."""
        np.take(self._planes, rows, axis=0, out=out)

    def close(self) -> None:
        """Do nothing; nothing is open."""


class LentRows:
    """Rows of a reader that its owner opens and closes."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        """See `Rows`."""
        self._rows.read(rows, out)

    def close(self) -> None:
        """Leave the reader open."""
