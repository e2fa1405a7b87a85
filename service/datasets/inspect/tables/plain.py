"""Converts a table's file for the readers: to plain Parquet or UTF-8 without byte-order mark."""

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from service.datasets.inspect.limits import MIB, Limits, say_too_large
from service.datasets.inspect.report import refuse
from service.datasets.inspect.tables.find import GZIP, PARQUET, looks_like_text

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ONE_BYTE = ("cp1252", "latin-1")
"""Encodings to try for text that is not UTF-8; the last one can decode anything."""
_LETTERS = re.compile(rb"[\x80-\xff]{8,}")
"""Letters in a row that no Western European word has: every other script fills words with them."""
_FEWEST_KINDS = 4
"""Kinds of bytes in such a row, which is not one if it is a line drawn with one character."""
NOT_A_TABLE = "send a CSV, TSV, JSON-lines or Parquet file, plain or .gz, or a zip or tar archive"


@dataclass(frozen=True)
class Plain:
    """A file that a reader can read, with notes on its conversion."""

    path: Path
    is_parquet: bool
    notes: list[str] = field(default_factory=list)


def make_plain(source: Path, *, work_dir: Path, place: str | None, limits: Limits) -> Plain:
    """Convert a table's file to plain form; return the file itself if it is already plain.

    Args:
        source: The file, which is never changed.
        work_dir: Folder for converted copies.
        place: The file's name in its archive, for messages.
        limits: Limits of the inspection.

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
    if not looks_like_text(head):
        raise refuse("not_a_table", f"is a binary file, not text; {NOT_A_TABLE}", place)
    encoding = _find_encoding(path, head, place=place)
    if encoding == "utf-8":
        return Plain(path, is_parquet=False)
    target = _new_path(work_dir)
    _recode(path, target, encoding, place=place)
    notes = []
    if encoding in _ONE_BYTE:
        where = f"{place} " if place else ""
        notes = [f"the text {where}is not UTF-8; it was read as {encoding}"]
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
    """Return the encoding of a text, by its byte-order mark, else by trial decoding.

    Raises:
        Refused: The text contains zero bytes, or is neither UTF-8 nor Western European.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    position = 0
    for chunk in _chunks(path):
        if b"\0" in chunk:
            message = f"has a zero byte at offset {position + chunk.index(0)}; {NOT_A_TABLE}"
            raise refuse("not_a_table", message, place)
        position += len(chunk)
    if _decodes(path, "utf-8"):
        return "utf-8"
    _refuse_other_scripts(path, place=place)
    return next((name for name in _ONE_BYTE if _decodes(path, name)), _ONE_BYTE[-1])


def _refuse_other_scripts(path: Path, *, place: str | None) -> None:
    """Refuse a text that one byte a letter would turn into garbage, such as Chinese in GBK."""
    line = 1
    with path.open("rb") as file:
        for row in iter(lambda: file.readline(MIB), b""):
            if any(len(set(found)) >= _FEWEST_KINDS for found in _LETTERS.findall(row)):
                message = (
                    f"is neither UTF-8 nor Western European text (line {line}); save it as UTF-8 "
                    "(in Excel: `CSV UTF-8`) and send it again"
                )
                raise refuse("bad_encoding", message, place)
            line += row.endswith(b"\n")


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _recode(path: Path, target: Path, encoding: str, *, place: str | None) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with target.open("xb") as output:
            for chunk in _chunks(path):
                output.write(decoder.decode(chunk).encode())
            output.write(decoder.decode(b"", True).encode())
    except UnicodeError as error:
        message = f"starts like {encoding} but is not valid ({error}); save it as UTF-8"
        raise refuse("bad_encoding", message, place) from None


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while chunk := file.read(MIB):
            yield chunk
