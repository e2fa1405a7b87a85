"""Lists and reads tar files without trusting their headers; nothing is ever extracted.

A compressed tar is first unpacked to a plain one next to the results, within a size limit, so that
later steps can access any file and several processes can read at once.
"""

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import MIB, Limits, say_too_large
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.report import refuse

OPENERS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""Magic bytes of each compression, and its decompressor."""
_MAX_HEADER_BYTES = MIB
_HEADERS = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}
_LINKS = {tarfile.SYMTYPE: "symbolic", tarfile.LNKTYPE: "hard"}
NOT_AN_ARCHIVE = (
    "not a zip or tar (plain, gzip, bzip2 or xz) or a table (CSV, TSV, JSON lines or Parquet); "
    "pack the folder as a zip or tar"
)
_CUT = "the archive is truncated or damaged at byte {offset}; pack and upload it again"


class _StrictTarInfo(tarfile.TarInfo):
    """Raises an error for bad headers, which tarfile would take for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.size < 0:  # reading would go backwards for ever
            raise tarfile.InvalidHeaderError("negative size")  # type: ignore[attr-defined]
        if info.type in _HEADERS and info.size > _MAX_HEADER_BYTES:
            raise tarfile.InvalidHeaderError("oversized header")  # type: ignore[attr-defined]
        return info

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        offset = archive.offset
        try:
            info = super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError:
            if offset == 0:
                raise refuse("not_an_archive", f"the file is {NOT_AN_ARCHIVE}") from None
            raise refuse("bad_archive", _CUT.format(offset=offset)) from None
        if info.size < 0 or archive.offset <= offset:
            raise refuse("bad_archive", _CUT.format(offset=offset))
        return info


def unpack_tar(file: BinaryIO, target: Path, *, limits: Limits) -> None:
    """Write the plain tar inside a compressed one.

    Raises:
        Refused: The archive is damaged, truncated, or unpacks to too many bytes.
        OSError: The disk is full.
    """
    magic = os.pread(file.fileno(), 8, 0)
    source = next(opener(file) for start, opener in OPENERS.items() if magic.startswith(start))
    archive_bytes = os.fstat(file.fileno()).st_size
    limit = min(limits.max_total_bytes, archive_bytes * limits.max_total_ratio + MIB)
    total = 0
    with target.open("xb") as output:
        while chunk := _read_packed(source):
            total += len(chunk)
            if total > limit:
                raise refuse(
                    "compression_bomb",
                    f"the archive unpacks to more than {limit} bytes; at most "
                    f"{limits.max_total_bytes} bytes and {limits.max_total_ratio} times the "
                    "archive's size are allowed; pack it again without compression, or split it",
                )
            output.write(chunk)


def list_tar(file: BinaryIO, *, limits: Limits) -> Listing:
    """Return the files of a plain tar.

    Raises:
        Refused: A name, an entry or the archive as a whole is not acceptable.
    """
    archive_bytes = os.fstat(file.fileno()).st_size
    listing = Listing(limits)
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=_StrictTarInfo) as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # otherwise it keeps them all
                _add(info, listing, archive_bytes)
    except (tarfile.TarError, OSError, ValueError, OverflowError, KeyError, EOFError) as error:
        raise refuse(
            "bad_archive", f"the tar archive cannot be read ({error}); pack and upload it again"
        ) from error
    listing.close()
    return listing


def read_tar_entry(fd: int, entry: Entry, *, limits: Limits) -> bytes:
    """Return the content of a listed file.

    Raises:
        BadImage: The file is too large or truncated.
    """
    if entry.size_bytes > limits.max_file_bytes:
        raise BadImage("too_large", say_too_large(limits.max_file_bytes))
    content = os.pread(fd, entry.size_bytes, entry.offset)
    if len(content) < entry.size_bytes:
        raise BadImage("bad_file", "is truncated; the archive is incomplete")
    return content


def _read_packed(source: Any) -> bytes:
    try:
        return cast("bytes", source.read(MIB))
    except MemoryError:
        message = "the archive needs too much memory to unpack; compress it with gzip"
        raise refuse("bad_archive", message) from None
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise refuse(
            "bad_archive", f"the archive cannot be unpacked ({error}); pack and upload it again"
        ) from error


def _add(info: tarfile.TarInfo, listing: Listing, archive_bytes: int) -> None:
    parts = listing.parse(info.name)
    if info.type in _LINKS:
        message = f"is a {_LINKS[info.type]} link; pack the file itself (tar -h --hard-dereference)"
        listing.note("symlink" if info.issym() else "hardlink", message, info.name)
    elif info.isdir():
        if parts is not None:
            listing.add_folder(parts)
    elif info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.sparse is not None:
        message = "is a device, pipe, socket or sparse file; remove it from the archive"
        listing.note("special_file", message, info.name)
    elif info.offset_data + info.size > archive_bytes:
        raise refuse("bad_archive", _CUT.format(offset=archive_bytes), info.name)
    elif parts is not None:
        entry = Entry(
            path=info.name,
            size_bytes=info.size,
            offset=info.offset_data,
            packed_bytes=info.size,
        )
        listing.add_file(entry)
