"""Reads scalars from TensorBoard's event files that a script writes.

Source: TensorFlow's `lib/io/record_writer.h` defines the record format: length (8 bytes, little
endian), its checksum (4), the record, its checksum (4). Records are messages of `event.proto`,
`summary.proto`, `tensor.proto` and `tensor_shape.proto`, whose field numbers are below.
"""

import fnmatch
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from worker.beneath import open_beneath
from worker.script.metrics.wire import FIXED_32, Field, read_fields, to_floats, to_signed

PATTERN = "*tfevents*"
HEADER_BYTES, FOOTER_BYTES = 12, 4
MAX_RECORD_BYTES = 64 << 20
MAX_READ_BYTES = 8 << 20
EVENT_STEP, EVENT_SUMMARY, SUMMARY_VALUE = 2, 5, 1
VALUE_TAG, VALUE_SIMPLE, VALUE_TENSOR = 1, 2, 8
TENSOR_DTYPE, TENSOR_SHAPE, TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES = 1, 2, 4, 5, 6
SHAPE_SIZE = 2
SIZES = {1: 4, 2: 8}
"""Bytes of a number for each tensor type that a scalar may have: float, double."""
Scalar = tuple[str, int, float]
"""Name, step and value."""


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
    """Yield each complete record and the offset of its end."""
    place = 0
    while place + HEADER_BYTES <= len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        end = place + HEADER_BYTES + size + FOOTER_BYTES
        if size > MAX_RECORD_BYTES or end > len(data):
            return
        yield data[place + HEADER_BYTES : end - FOOTER_BYTES], end
        place = end


def _parse(record: bytes) -> Iterator[Scalar]:
    """Yield the scalars of one event.

    Raises:
        ValueError: The record is not an event.
    """
    fields = list(read_fields(record))
    step = next((to_signed(v) for n, _, v in fields if n == EVENT_STEP and isinstance(v, int)), 0)
    for summary in _inner(fields, EVENT_SUMMARY):
        for value in _inner(read_fields(summary), SUMMARY_VALUE):
            parts = list(read_fields(value))
            number = _scalar(parts)
            if number is not None:
                tag = b"".join(_inner(parts, VALUE_TAG))
                yield tag.decode(errors="replace"), step, number


def _inner(fields: Iterable[Field], wanted: int) -> Iterator[bytes]:
    return (v for number, _, v in fields if number == wanted and isinstance(v, bytes))


def _scalar(parts: Iterable[Field]) -> float | None:
    """Return a summary value's number; None if it is an image, a text or several numbers."""
    for number, kind, content in parts:
        if isinstance(content, int):
            continue
        if number == VALUE_SIMPLE and kind == FIXED_32:
            return to_floats(content, size_bytes=4)[0]
        if number == VALUE_TENSOR:
            return _scalar_of_tensor(content)
    return None


def _scalar_of_tensor(tensor: bytes) -> float | None:
    dtype, numbers = 0, list[float]()
    for number, _, content in read_fields(tensor):
        if isinstance(content, int):
            dtype = content if number == TENSOR_DTYPE else dtype
        elif number == TENSOR_SHAPE and any(_inner(read_fields(content), SHAPE_SIZE)):
            return None  # it has dimensions
        elif number == TENSOR_FLOATS:
            numbers += to_floats(content, size_bytes=4)
        elif number == TENSOR_DOUBLES:
            numbers += to_floats(content, size_bytes=8)
        elif number == TENSOR_CONTENT and dtype in SIZES:
            numbers += to_floats(content, size_bytes=SIZES[dtype])
    return numbers[0] if len(numbers) == 1 else None
