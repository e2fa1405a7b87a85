"""Lists and reads zip files without trusting their headers.

The central directory is read in pieces, so that a million entries need little time and memory; each
entry is then compared with its local header. Content is inflated here, to at most the announced
number of bytes.

Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3 and 4.5.3.
"""

import os
import stat
import struct
import zlib
from array import array
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import MIB, Limits, say_too_large
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.report import Refused, refuse

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_CENTRAL_HEADER = struct.Struct("<4s4xHH4xIIIHHH4xII")
_CENTRAL_MAGIC = b"PK\x01\x02"
_END = struct.Struct("<4s8xIIH")
_END_MAGIC = b"PK\x05\x06"
_END64 = struct.Struct("<4s36xQQ")
_END64_MAGIC = b"PK\x06\x06"
_LOCATOR64_BYTES = 20
_MAX_COMMENT_BYTES = 2**16 - 1
_SEE_EXTRA = 2**32 - 1
"""Value of a size or offset that is in the zip64 field, because it does not fit."""
_PIECE_BYTES = MIB
_ENCRYPTED = 0x1
_UTF8 = 0x800
_STORED = 0
_METHODS = {_STORED: False, 8: True}


class _Directory(NamedTuple):
    """Where the central directory is; `shift` is the length of what precedes the archive."""

    offset: int
    end: int
    shift: int


class _Header(NamedTuple):
    """One entry of the central directory."""

    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    mode: int
    offset: int

    @property
    def name(self) -> str:
        """The name, in the encoding that the flags state."""
        return self.raw_name.decode("utf-8" if self.flags & _UTF8 else "cp437")


def list_zip(file: BinaryIO, *, limits: Limits) -> Listing:
    """Return the files of a zip archive.

    Raises:
        Refused: A name, an entry or the archive as a whole is not acceptable.
    """
    fd = file.fileno()
    archive_bytes = os.fstat(fd).st_size
    listing = Listing(limits)
    starts, ends, paths = array("q"), array("q"), []
    try:
        directory = _find_directory(fd, archive_bytes)
        for header in _read_directory(fd, directory):
            entry = _read_entry(fd, header, listing, archive_bytes=directory.offset)
            if entry is None:
                continue
            starts.append(header.offset)
            ends.append(entry.offset + entry.packed_bytes)
            paths.append(entry.path)
            if not entry.path.endswith("/"):
                _note_bomb(entry, listing)
                listing.add_file(entry)
    except Refused:
        raise
    except (ValueError, OverflowError, struct.error) as error:
        raise refuse(
            "bad_archive", f"the zip archive cannot be read ({error}); pack and upload it again"
        ) from error
    _note_overlaps(starts, ends, paths, directory.offset, listing)
    listing.close()
    if listing.total_bytes > archive_bytes * limits.max_total_ratio + MIB:
        raise refuse(
            "compression_bomb",
            f"the archive unpacks to more than {limits.max_total_ratio} times its size; pack it "
            "again without compression, or split it",
        )
    return listing


def read_zip_entry(fd: int, entry: Entry, *, limits: Limits) -> bytes:
    """Return the content of a listed file.

    Raises:
        BadImage: The file is too large, truncated, or does not match its header.
    """
    if max(entry.size_bytes, entry.packed_bytes) > limits.max_file_bytes:
        raise BadImage("too_large", say_too_large(limits.max_file_bytes))
    packed = os.pread(fd, entry.packed_bytes, entry.offset)
    if len(packed) < entry.packed_bytes:
        raise BadImage("bad_file", "is truncated; the archive is incomplete")
    content = _inflate(packed, entry.size_bytes) if entry.is_deflated else packed
    if len(content) != entry.size_bytes or zlib.crc32(content) != entry.crc:
        raise BadImage("bad_file", "is damaged (its checksum or size is wrong)")
    return content


def _find_directory(fd: int, archive_bytes: int) -> _Directory:
    """Find the central directory by the record at the archive's end.

    Raises:
        ValueError: There is no such record, or it cannot be right.
    """
    tail_at = max(0, archive_bytes - _END.size - _MAX_COMMENT_BYTES)
    tail = os.pread(fd, archive_bytes - tail_at, tail_at)
    found = tail.rfind(_END_MAGIC, 0, max(0, len(tail) - _END.size + len(_END_MAGIC)))
    if found < 0:
        raise ValueError("its end is missing")
    end = tail_at + found
    _, num_bytes, offset, _ = _END.unpack_from(tail, found)
    before = end - _LOCATOR64_BYTES - _END64.size
    if before >= 0:
        record = os.pread(fd, _END64.size, before)
        if record.startswith(_END64_MAGIC):
            end = before
            _, num_bytes, offset = _END64.unpack(record)
    shift = end - num_bytes - offset
    if shift < 0:
        raise ValueError("its directory is outside the archive")
    return _Directory(offset=end - num_bytes, end=end, shift=shift)


def _read_directory(fd: int, directory: _Directory) -> Iterator[_Header]:
    """Yield the entries of the central directory.

    Raises:
        ValueError: An entry is damaged.
    """
    position, piece, start = directory.offset, b"", 0
    while position + start < directory.end:
        header = _parse_header(piece, start, shift=directory.shift)
        if header is None:
            position += start
            end = min(directory.end, position + _PIECE_BYTES)
            piece, start = os.pread(fd, max(0, end - position), position), 0
            header = _parse_header(piece, start, shift=directory.shift)
            if header is None:
                raise ValueError("its directory is truncated")
        found, start = header
        yield found


def _parse_header(piece: bytes, start: int, *, shift: int) -> tuple[_Header, int] | None:
    """Return the entry at an offset and the offset behind it; None if the piece ends before.

    Raises:
        ValueError: Something else is there.
    """
    name_at = start + _CENTRAL_HEADER.size
    if name_at > len(piece):
        return None
    magic, flags, method, crc, packed, size, num_name, num_extra, num_comment, mode, offset = (
        _CENTRAL_HEADER.unpack_from(piece, start)
    )
    if magic != _CENTRAL_MAGIC:
        raise ValueError("its directory is damaged")
    extra_at = name_at + num_name
    end = extra_at + num_extra + num_comment
    if end > len(piece):
        return None
    if _SEE_EXTRA in (size, packed, offset):
        extra = piece[extra_at : extra_at + num_extra]
        size, packed, offset = _widen(extra, (size, packed, offset))
    name = piece[name_at:extra_at]
    return _Header(name, flags, method, crc, packed, size, mode >> 16, offset + shift), end


def _widen(extra: bytes, narrow: tuple[int, int, int]) -> list[int]:
    """Return sizes and offset, with those that do not fit from the zip64 field.

    Raises:
        ValueError: The field is missing or too short.
    """
    at = 0
    while at + 4 <= len(extra):
        kind, num_bytes = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = (
                value for (value,) in struct.iter_unpack("<Q", extra[at + 4 :][: num_bytes & ~7])
            )
            values = [next(wide, None) if value == _SEE_EXTRA else value for value in narrow]
            whole = [value for value in values if value is not None]
            if len(whole) == len(narrow):
                return whole
        at += 4 + num_bytes
    raise ValueError("a large size is missing from its directory")


def _read_entry(fd: int, header: _Header, listing: Listing, *, archive_bytes: int) -> Entry | None:
    """Compare an entry of the central directory with its local header; None if it is refused."""
    name = header.name
    parts = listing.parse(name)
    fault = _find_fault(header)
    if fault is None:
        name_at = _LOCAL_HEADER.size
        local = b""
        if header.offset < archive_bytes:
            local = os.pread(fd, name_at + len(header.raw_name), header.offset)
        if len(local) < name_at:
            fault = "bad_archive", "has a header outside the archive; pack the archive again"
        else:
            magic, _, flags, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(local)
            is_same = name_bytes == len(header.raw_name) and local[name_at:] == header.raw_name
            if magic != _LOCAL_MAGIC or flags & _ENCRYPTED or not is_same:
                fault = "bad_archive", "has two different names in the archive; pack it again"
    if fault is not None:
        listing.note(*fault, name)
        return None
    if parts is None:
        return None
    if name.endswith("/"):
        listing.add_folder(parts)
    return Entry(
        path=name,
        size_bytes=header.size_bytes,
        offset=header.offset + _LOCAL_HEADER.size + name_bytes + extra_bytes,
        packed_bytes=header.packed_bytes,
        crc=header.crc,
        is_deflated=_METHODS[header.method],
    )


def _find_fault(header: _Header) -> tuple[str, str] | None:
    kind = stat.S_IFMT(header.mode)
    if kind == stat.S_IFLNK:
        return "symlink", "is a symbolic link; pack the file itself (zip without -y)"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "special_file", "is a device, pipe or socket; remove it from the archive"
    if header.flags & _ENCRYPTED:
        return "encrypted", "is encrypted; pack the archive without a password"
    if header.method not in _METHODS:
        return "unsupported_compression", "uses an unsupported compression; use Deflate or none"
    if header.method == _STORED and header.packed_bytes != header.size_bytes:
        return "bad_archive", "has two different sizes in the archive; pack the archive again"
    return None


def _note_bomb(entry: Entry, listing: Listing) -> None:
    ratio = listing.limits.max_ratio
    if entry.size_bytes > MIB and entry.size_bytes > ratio * max(1, entry.packed_bytes):
        message = f"unpacks to more than {ratio} times its packed size; no image does that"
        listing.note("compression_bomb", message, entry.path)


def _note_overlaps(
    starts: "array[int]", ends: "array[int]", paths: list[str], end: int, listing: Listing
) -> None:
    """Refuse entries that share bytes, the trick by which a small archive unpacks to any size."""
    if not paths:
        return
    first, behind = np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)
    order = np.lexsort((behind, first))
    behind = behind[order]
    furthest = np.maximum.accumulate(behind)
    is_shared = behind > end
    is_shared[1:] |= first[order][1:] < furthest[:-1]
    for place in order[is_shared]:
        message = "shares bytes with another file of the archive; pack the archive again"
        listing.note("overlapping_entries", message, paths[place])


def _inflate(packed: bytes, size_bytes: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflater.decompress(packed, size_bytes + 1)
    except zlib.error as error:
        raise BadImage("bad_file", f"cannot be unpacked: {error}") from None
    if len(content) > size_bytes:
        raise BadImage("compression_bomb", "unpacks to more bytes than the archive states")
    return content
