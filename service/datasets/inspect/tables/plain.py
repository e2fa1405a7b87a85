"""Converts a table's file for the readers: to plain Parquet or UTF-8 without byte-order mark."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from redkiln.cells.encoding import ONE_BYTE, OtherScriptError, find_encoding, read_chunks
from service.datasets.inspect.limits import MIB, Limits, say_too_large
from service.datasets.inspect.report import explain_script, refuse, refuse_encoding, say_guessed
from service.datasets.inspect.tables.find import GZIP, PARQUET, looks_like_text

NOT_A_TABLE = "send a CSV, TSV, JSON-lines or Parquet file, plain or .gz, or a zip or tar archive"


@dataclass(frozen=True)
class Plain:
    """A file that a reader can read, with notes on its conversion."""

    path: Path
    is_parquet: bool
    notes: list[str] = field(default_factory=list)


def make_plain(
    source: Path,
    *,
    work_dir: Path,
    place: str | None,
    limits: Limits,
    encoding: str | None = None,
) -> Plain:
    """Convert a table's file to plain form; return the file itself if it is already plain.

    Args:
        source: The file, which is never changed.
        work_dir: Folder for converted copies.
        place: The file's name in its archive, for messages.
        limits: Limits of the inspection.
        encoding: Encoding of a text, if the user gave one.

    Raises:
        Refused: The file is damaged, unpacks to too many bytes, or is not text.
        OSError: The disk is full.
    """
    path = source
    with source.open("rb") as file:
        head = file.read(4096)
    if head.startswith(GZIP):
        path = _new_path(work_dir)
        _unpack(source, path, place=place, limits=limits)
        with path.open("rb") as file:
            head = file.read(4096)
    if path.stat().st_size > limits.max_table_bytes:
        raise refuse("too_large", say_too_large(limits.max_table_bytes), place)
    if head.startswith(PARQUET):
        return Plain(path, is_parquet=True)
    if not head:
        raise refuse("empty_file", "is empty", place)
    if encoding is None and not looks_like_text(head):
        raise refuse("not_a_table", f"is a binary file, not text; {NOT_A_TABLE}", place)
    found = encoding or _find_encoding(path, head, place=place)
    if found == "utf-8" and encoding is None:
        return Plain(path, is_parquet=False)
    target = _new_path(work_dir)
    _recode(path, target, found, place=place)
    notes = []
    if encoding is None and found in ONE_BYTE:
        notes = [say_guessed(found, place)]
    return Plain(target, is_parquet=False, notes=notes)


def _new_path(work_dir: Path) -> Path:
    number = sum(1 for _ in work_dir.glob("plain-*"))
    return work_dir / f"plain-{number}"


def _unpack(source: Path, target: Path, *, place: str | None, limits: Limits) -> None:
    packed_bytes = source.stat().st_size
    limit = min(limits.max_table_bytes, packed_bytes * limits.max_ratio + MIB)
    total = 0
    try:
        with gzip.open(source) as packed, target.open("xb") as output:
            while chunk := packed.read(MIB):
                total += len(chunk)
                if total > limit:
                    message = (
                        f"unpacks to more than {limit} bytes, which looks like a decompression "
                        "bomb; upload it uncompressed"
                    )
                    raise refuse("compression_bomb", message, place)
                output.write(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refuse("bad_archive", f"cannot be unpacked ({error}); send it again", place) from None


def _find_encoding(path: Path, head: bytes, *, place: str | None) -> str:
    """Return the encoding of a text.

    Raises:
        Refused: The text contains zero bytes, or is neither Unicode nor Western European.
    """
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    position = 0
    for chunk in _chunks(path) if not is_wide else ():
        if b"\0" in chunk:
            message = f"has a zero byte at offset {position + chunk.index(0)}; {NOT_A_TABLE}"
            raise refuse("not_a_table", message, place)
        position += len(chunk)
    try:
        with path.open("rb") as file:
            return find_encoding(file)
    except OtherScriptError as error:
        raise refuse("bad_encoding", explain_script(error), place) from None


def _recode(path: Path, target: Path, encoding: str, *, place: str | None) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with target.open("xb") as output:
            for chunk in _chunks(path):
                output.write(decoder.decode(chunk).encode())
            output.write(decoder.decode(b"", True).encode())
    except UnicodeError:
        with path.open("rb") as file:
            raise refuse_encoding(file, encoding, place) from None


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        yield from read_chunks(file)
