"""The records of an event file: `length (uint64), its checksum, data, its checksum`.

The checksums are masked CRC-32C. A reader skips them: a file that a script still writes is read as
far as its records are complete.

Source: TensorFlow's `core/lib/io/record_writer.h`; RFC 3720 appendix B.4 (CRC-32C).
"""

import struct
from collections.abc import Iterator

HEADER_BYTES, FOOTER_BYTES = 12, 4
MAX_RECORD_BYTES = 64 << 20

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


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


def read_records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each complete record, and the offset of the record's end."""
    place = 0
    while place + HEADER_BYTES <= len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        end = place + HEADER_BYTES + size + FOOTER_BYTES
        if size > MAX_RECORD_BYTES or end > len(data):
            return
        yield data[place + HEADER_BYTES : end - FOOTER_BYTES], end
        place = end


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)
