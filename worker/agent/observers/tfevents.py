"""Event files as TensorBoard reads them: scalars, each with its step and the time of writing.

A record is `length (uint64), its checksum, data, its checksum`, with masked CRC-32C checksums; the
data is an `Event` message. Scalars need only a few of its fields, so they are encoded here: the
library for it imports protobuf and numpy, which takes 0.5 to 2 s, and the agent has neither.

Source: tensorflow `core/lib/io/record_writer.h`, `core/util/event.proto`,
`core/framework/summary.proto`; RFC 3720 appendix B.4 (CRC-32C).
"""

import struct
from collections.abc import Iterable
from pathlib import Path

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_DOUBLE, _BYTES, _FLOAT = 1, 2, 5
"""Wire types of protobuf other than varints, which are 0."""


def _build_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _build_table()


def crc32c(data: bytes) -> int:
    """Compute the Castagnoli CRC-32 checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def encode_record(data: bytes) -> bytes:
    """Encode one record of a file."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked(length), data, _masked(data)))


def encode_version(wall_time: float) -> bytes:
    """Encode the event that a file begins with."""
    return _double(1, wall_time) + _bytes(3, b"brain.Event:2")


def encode_scalars(scalars: Iterable[tuple[str, float]], *, step: int, wall_time: float) -> bytes:
    """Encode an event with values of one step."""
    values = b"".join(_bytes(1, _bytes(1, n.encode()) + _float(2, v)) for n, v in scalars)
    return _double(1, wall_time) + _varint_field(2, step) + _bytes(5, values)


def encode_start(*, step: int, wall_time: float) -> bytes:
    """Encode the start of a session, which discards earlier events from this step onwards."""
    return _double(1, wall_time) + _varint_field(2, step) + _bytes(7, _varint_field(1, 1))


class EventFile:
    """A growing event file; a concurrent reader always finds complete records."""

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
            encode_record(encode_scalars([(name, value)], step=step, wall_time=wall_time))
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


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _float(number: int, value: float) -> bytes:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(number << 3 | _FLOAT) + packed
