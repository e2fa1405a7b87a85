"""A growing event file; a concurrent reader always finds complete records."""

from collections.abc import Iterable
from pathlib import Path

from worker.tfevents.records import encode_record
from worker.tfevents.scalars import encode_scalar, encode_start, encode_version


class EventFile:
    """Appends scalars to a new file."""

    def __init__(self, path: Path, *, wall_time: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._file.write(encode_record(encode_version(wall_time)))

    def add(self, name: str, points: Iterable[tuple[int, float]], *, wall_time: float) -> None:
        """Append points of one series.

        Raises:
            OSError: The disk is full.
        """
        records = [
            encode_record(encode_scalar(name, value, step=step, wall_time=wall_time))
            for step, value in points
        ]
        if records:
            self._file.write(b"".join(records))

    def undo_after(self, step: int, *, wall_time: float) -> None:
        """Discard everything written so far for steps after `step`.

        Raises:
            OSError: The disk is full.
        """
        self._file.write(encode_record(encode_start(step=step + 1, wall_time=wall_time)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
