"""Reads scalars from TensorBoard's event files that a script writes."""

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

from worker.beneath import open_beneath
from worker.tfevents.records import read_records
from worker.tfevents.scalars import Scalar, parse_scalars

PATTERN = "*tfevents*"
MAX_READ_BYTES = 8 << 20


class EventFiles:
    """All event files below a folder, read incrementally as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._broken: set[Path] = set()

    def read(self) -> Iterator[Scalar]:
        """Yield the scalars that are new since the last call, file by file."""
        # Unlike rglob, os.walk tolerates files that are removed meanwhile.
        for folder, _, names in os.walk(self._folder):
            for name in sorted(fnmatch.filter(names, PATTERN)):
                path = Path(folder, name)
                if path not in self._broken:
                    yield from self._read_file(path)

    def _read_file(self, path: Path) -> Iterator[Scalar]:
        # The files in one folder belong to one run; the folder's name distinguishes several runs.
        run = path.parent.relative_to(self._folder).as_posix()
        prefix = "" if run in (".", "runs", "tensorboard", "logs") else f"{run}/"
        try:
            with open_beneath(self._folder, path.relative_to(self._folder).as_posix()) as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read(MAX_READ_BYTES)
        except OSError:
            return  # it was removed meanwhile, or is not a file
        used = 0
        for event, end in read_records(data):
            used = end
            try:
                for name, step, value in parse_scalars(event):
                    yield f"{prefix}{name}", step, value
            except ValueError:
                self._broken.add(path)
                return
        self._offsets[path] = self._offsets.get(path, 0) + used
