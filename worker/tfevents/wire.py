"""Encodes and decodes protobuf fields, without the descriptions of their messages.

Source: protobuf.dev, "Encoding".
"""

import struct
from collections.abc import Iterator

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
"""Wire types; groups (3, 4) were deprecated before TensorBoard existed."""
MAX_VARINT_BYTES = 10

Field = tuple[int, int, int | bytes]
"""Number, wire type, and value: an integer for a varint, otherwise bytes."""


def write_varint(number: int, value: int) -> bytes:
    """Encode a field that is an integer of at least 0."""
    return _varint(number << 3 | VARINT) + _varint(value)


def write_bytes(number: int, value: bytes) -> bytes:
    """Encode a field that is a string, a message or packed numbers."""
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def write_double(number: int, value: float) -> bytes:
    """Encode a field of type double."""
    return _varint(number << 3 | FIXED_64) + struct.pack("<d", value)


def write_float(number: int, value: float) -> bytes:
    """Encode a field of type float; a value beyond its range becomes infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(number << 3 | FIXED_32) + packed


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message, in order.

    Raises:
        ValueError: The bytes are not a message.
    """
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _read_varint(message, place)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, place = _read_varint(message, place)
        elif kind in (FIXED_64, FIXED_32):
            size = 8 if kind == FIXED_64 else 4
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")
        if place + size > len(message):
            raise ValueError("a field is truncated")
        yield number, kind, message[place : place + size]
        place += size


def to_signed(varint: int) -> int:
    """Return the int64 that a varint encodes."""
    return varint - 2**64 if varint >= 2**63 else varint


def to_floats(packed: bytes, *, size_bytes: int) -> list[float]:
    """Decode packed numbers: floats of 4 bytes or doubles of 8.

    Raises:
        ValueError: The size is not a multiple of a number's size.
    """
    if len(packed) % size_bytes:
        raise ValueError("a number is truncated")
    letter = "f" if size_bytes == struct.calcsize("<f") else "d"
    return list(struct.unpack(f"<{len(packed) // size_bytes}{letter}", packed))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(message[place : place + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value & (2**64 - 1), place + number + 1
    raise ValueError("a varint is truncated")
