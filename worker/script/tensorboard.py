"""Scalars of TensorBoard's event files, as a script writes them.

Source: the record format is that of TensorFlow's `lib/io/record_writer.h`: length (8 bytes, little
endian), its checksum (4), the record, its checksum (4).
"""

import fnmatch
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.beneath import open_beneath

PATTERN = "*tfevents*"
HEADER_BYTES, FOOTER_BYTES = 12, 4
MAX_RECORD_BYTES = 64 << 20
MAX_READ_BYTES = 8 << 20
Scalar = tuple[str, int, float]
"""Name, step, value."""


class EventFiles:
    """All event files below a folder, read on as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._broken: set[Path] = set()

    def read(self) -> Iterator[Scalar]:
        """Scalars that are new since the last time, file by file."""
        # Unlike rglob it does not mind what is removed meanwhile.
        for folder, _, names in os.walk(self._folder):
            for name in sorted(fnmatch.filter(names, PATTERN)):
                path = Path(folder, name)
                if path not in self._broken:
                    yield from self._read_file(path)

    def _read_file(self, path: Path) -> Iterator[Scalar]:
        # What lies in one folder is one run, and its name tells several runs apart.
        run = path.parent.relative_to(self._folder).as_posix()
        prefix = "" if run in (".", "runs", "tensorboard", "logs") else f"{run}/"
        try:
            with open_beneath(self._folder, path.relative_to(self._folder).as_posix()) as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read(MAX_READ_BYTES)
        except OSError:
            return  # it was removed meanwhile, or is no file
        used = 0
        for record, end in _records(data):
            used = end
            try:
                for name, step, value in _parse(record):
                    yield f"{prefix}{name}", step, value
            except ValueError:
                self._broken.add(path)
                return
        self._offsets[path] = self._offsets.get(path, 0) + used


def _records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole records, each with where it ends."""
    place = 0
    while place + HEADER_BYTES <= len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        end = place + HEADER_BYTES + size + FOOTER_BYTES
        if size > MAX_RECORD_BYTES or end > len(data):
            return
        yield data[place + HEADER_BYTES : end - FOOTER_BYTES], end
        place = end


def _parse(record: bytes) -> Iterator[Scalar]:
    """Scalars of one event.

    Raises:
        ValueError: it is no event.
    """
    # Importing the messages takes some tenths of a second; most scripts write none.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboardX.proto.event_pb2 import Event

    try:
        event = Event.FromString(record)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    for value in event.summary.value:
        number = _scalar(value)
        if number is not None:
            yield value.tag, int(event.step), number


def _scalar(value: Any) -> float | None:
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor":
        return None
    tensor = value.tensor
    if tensor.tensor_shape.dim:
        return None
    if tensor.float_val:
        return float(tensor.float_val[0])
    if tensor.double_val:
        return float(tensor.double_val[0])
    if len(tensor.tensor_content) == struct.calcsize("<f"):
        return float(struct.unpack("<f", tensor.tensor_content)[0])
    return None
