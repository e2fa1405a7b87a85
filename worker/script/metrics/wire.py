"""Reads protobuf messages field by field, without their descriptions.

The protobuf library takes hundreds of milliseconds to import, and the package with TensorBoard's
messages imports torch; the script's supervisor needs neither.

Source: protobuf.dev, "Encoding".
"""

import struct
from collections.abc import Iterator

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
"""Wire types; groups (3, 4) were deprecated before TensorBoard existed."""
MAX_VARINT_BYTES = 10

Field = tuple[int, int, int | bytes]
"""Number, wire type, and value: an integer for a varint, otherwise bytes."""


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


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(message[place : place + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value & (2**64 - 1), place + number + 1
    raise ValueError("a varint is truncated")
