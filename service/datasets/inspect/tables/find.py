"""Finds the tables among the files of a data set, and the splits that they hold."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from service.datasets.inspect.layout import SPLITS, Split
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse

PARQUET = b"PAR1"
GZIP = b"\x1f\x8b"
_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".pq")
_MAYBE_TABLES = (".txt", ".data", ".json", ".dat")
"""Used only without a better candidate, because a README has such an ending, too."""
_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_OFFICE = "[Content_Types].xml"
"""A file in every zip that is an Office document."""
_PEEK_BYTES = 4096
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class TableFile:
    """A file with a table, and the split that its rows belong to; None for a single table."""

    entry: Entry
    split: Split | None


def is_lone_table(file: BinaryIO) -> bool:
    """Return whether an upload is a table, plain or gzipped, rather than an archive."""
    head = os.pread(file.fileno(), _PEEK_BYTES, 0)
    if head.startswith(GZIP):
        head = _inflate_head(head)
    has_lines = b"\n" in head or b"\r" in head or len(head) == _PEEK_BYTES
    return head.startswith(PARQUET) or (has_lines and looks_like_text(head) and not _is_tar(head))


def looks_like_text(head: bytes) -> bool:
    """Return whether bytes may be text: they have no control characters that text never has."""
    if not head or head.startswith(_UTF16):
        return bool(head)
    return not any(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)


def find_tables(files: Sequence[Entry], *, wants_table: bool) -> list[TableFile]:
    """Return the tables among the files of an archive or folder; none if it contains images.

    Args:
        files: All listed files.
        wants_table: Whether table options were given, so that images do not matter.

    Raises:
        Refused: There are several tables without known splits, or it is an Office document.
    """
    if any(entry.path == _OFFICE for entry in files):
        message = (
            "the file is an Excel or other Office document; save the sheet as CSV and send that"
        )
        raise refuse("not_a_table", message)
    found = [entry for entry in files if _ends(entry, _TABLES)]
    is_of_images = has_images(files)
    if not found and not is_of_images:
        found = [entry for entry in files if _ends(entry, _MAYBE_TABLES)]
        found = [entry for entry in found if not _stem(entry).startswith(("readme", "license"))]
    if is_of_images and not wants_table:
        return []
    if len(found) == 1:
        return [TableFile(found[0], None)]
    return _by_split(found)


def has_images(files: Sequence[Entry]) -> bool:
    """Return whether the name of any file is that of an image."""
    return any(_ends(entry, _IMAGES) for entry in files)


def _by_split(found: Sequence[Entry]) -> list[TableFile]:
    tables = [TableFile(entry, _split_of(entry)) for entry in found]
    splits = [table.split for table in tables]
    if not tables or ("train" in splits and None not in splits):
        return sorted(tables, key=lambda table: table.entry.path)
    names = ", ".join(entry.path for entry in found[:5])
    message = (
        f"there are {len(found)} tables ({names}); name them train.* and test.*, or send only one"
    )
    raise refuse("several_tables", message)


def _split_of(entry: Entry) -> Split | None:
    """Return the split by the name of the file (`train-00000-of-00002.parquet`) or its folder."""
    words = [_first_word(_stem(entry)), *(part.casefold() for part in entry.parts[-2:-1])]
    return next((SPLITS[word] for word in words if word in SPLITS), None)


def _first_word(stem: str) -> str:
    for mark in "-_.":
        stem = stem.partition(mark)[0]
    return stem


def _stem(entry: Entry) -> str:
    return entry.parts[-1].casefold()


def _ends(entry: Entry, endings: tuple[str, ...]) -> bool:
    return _stem(entry).removesuffix(".gz").endswith(endings)


def _inflate_head(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _PEEK_BYTES)
    except zlib.error:
        return b""


def _is_tar(head: bytes) -> bool:
    """Detect tars by POSIX and GNU magic; older tars have zero bytes, which text never has."""
    return head[257:262] == b"ustar"
