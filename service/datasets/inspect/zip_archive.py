"""Lists and reads zip files without trusting their headers.

`zipfile` reads the central directory; each entry is then compared with its local header. Content is
inflated here, to at most the announced number of bytes.
"""

import os
import stat
import struct
import zipfile
import zlib
from typing import BinaryIO

from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import MIB, Limits, say_too_large
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.report import refuse

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1
_UTF8 = 0x800
_METHODS = {zipfile.ZIP_STORED: False, zipfile.ZIP_DEFLATED: True}


def list_zip(file: BinaryIO, *, limits: Limits) -> Listing:
    """Return the files of a zip archive.

    Raises:
        Refused: A name, an entry or the archive as a whole is not acceptable.
    """
    archive_bytes = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            directory_offset = archive.start_dir
    except Exception as error:
        raise refuse(
            "bad_archive", f"the zip archive cannot be read ({error}); pack and upload it again"
        ) from error
    listing = Listing(limits)
    extents: list[tuple[int, int, str]] = []
    for info in infos:
        entry = _read_entry(file.fileno(), info, listing)
        if entry is None:
            continue
        extents.append((info.header_offset, entry.offset + entry.packed_bytes, entry.path))
        if not info.is_dir():
            _note_bomb(entry, listing)
            listing.add_file(entry)
    _note_overlaps(extents, directory_offset, listing)
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


def _read_entry(fd: int, info: zipfile.ZipInfo, listing: Listing) -> Entry | None:
    """Compare an entry of the central directory with its local header; None if it is refused."""
    name = info.filename
    parts = listing.parse(name)
    fault = _find_fault(info)
    header = b""
    if 0 <= info.header_offset < os.fstat(fd).st_size:
        header = os.pread(fd, _LOCAL_HEADER.size, info.header_offset)
    if fault is None and len(header) < _LOCAL_HEADER.size:
        fault = "bad_archive", "has a header outside the archive; pack the archive again"
    if fault is None:
        magic, _, flags, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        name_offset = info.header_offset + _LOCAL_HEADER.size
        raw_name = os.pread(fd, name_bytes, name_offset)
        if magic != _LOCAL_MAGIC or flags & _ENCRYPTED or raw_name != _encode(info):
            fault = "bad_archive", "has two different names in the archive; pack the archive again"
    if fault is not None:
        listing.note(*fault, name)
        return None
    if parts is None:
        return None  # also for an empty name, on which is_dir() fails
    if info.is_dir():
        listing.add_folder(parts)
    return Entry(
        path=name,
        parts=parts,
        size_bytes=info.file_size,
        offset=name_offset + name_bytes + extra_bytes,
        packed_bytes=info.compress_size,
        crc=info.CRC,
        is_deflated=_METHODS[info.compress_type],
    )


def _find_fault(info: zipfile.ZipInfo) -> tuple[str, str] | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if "\0" in info.orig_filename:
        return "unsafe_path", "contains control characters; rename it"
    if kind == stat.S_IFLNK:
        return "symlink", "is a symbolic link; pack the file itself (zip without -y)"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "special_file", "is a device, pipe or socket; remove it from the archive"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted", "is encrypted; pack the archive without a password"
    if info.compress_type not in _METHODS:
        return "unsupported_compression", "uses an unsupported compression; use Deflate or none"
    is_stored = info.compress_type == zipfile.ZIP_STORED
    if is_stored and info.compress_size != info.file_size:
        return "bad_archive", "has two different sizes in the archive; pack the archive again"
    return None


def _note_bomb(entry: Entry, listing: Listing) -> None:
    ratio = listing.limits.max_ratio
    if entry.size_bytes > MIB and entry.size_bytes > ratio * max(1, entry.packed_bytes):
        message = f"unpacks to more than {ratio} times its packed size; no image does that"
        listing.note("compression_bomb", message, entry.path)


def _note_overlaps(
    extents: list[tuple[int, int, str]], directory_offset: int, listing: Listing
) -> None:
    """Refuse entries that share bytes, the trick by which a small archive unpacks to any size."""
    position = 0
    for start, end, path in sorted(extents):
        if start < position or end > directory_offset:
            message = "shares bytes with another file of the archive; pack the archive again"
            listing.note("overlapping_entries", message, path)
        position = max(position, end)


def _inflate(packed: bytes, size_bytes: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflater.decompress(packed, size_bytes + 1)
    except zlib.error as error:
        raise BadImage("bad_file", f"cannot be unpacked: {error}") from None
    if len(content) > size_bytes:
        raise BadImage("compression_bomb", "unpacks to more bytes than the archive states")
    return content


def _encode(info: zipfile.ZipInfo) -> bytes:
    encoding = "utf-8" if info.flag_bits & _UTF8 else "cp437"
    return info.orig_filename.encode(encoding, errors="surrogateescape")
