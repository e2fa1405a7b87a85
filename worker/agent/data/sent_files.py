"""The file name of an upload on a worker: an uploaded file loses its original name."""

import gzip
import zlib
from pathlib import Path

from worker.unpack import is_archive

STEM = "data"
HEAD_BYTES = 65_536
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def name_sent(path: Path) -> str:
    """Return a name that shows a program what a file contains: `data.csv`, `data.jsonl.gz`.

    An archive, and a file that is neither text nor Parquet, is called `data`.
    """
    if is_archive(path):
        return STEM
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(GZIP):
        return STEM + find_ending(head)
    try:
        with gzip.open(path) as packed:
            head = packed.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return STEM  # truncated, or compressed in another format
    return f"{STEM}{find_ending(head)}.gz"


def find_ending(head: bytes) -> str:
    """Return a file's suffix from its first, uncompressed bytes; empty if it is not a table."""
    if head.startswith(PARQUET):
        return ".parquet"
    if b"\0" in head and not head.startswith(_UTF16):
        return ""
    words = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if words.startswith(b"{"):
        return ".jsonl"
    first_line = words.partition(b"\n")[0]
    return ".tsv" if first_line.count(b"\t") > first_line.count(b",") else ".csv"
