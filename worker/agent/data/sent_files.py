"""The file name of a table on a worker: an uploaded table loses its original name."""

import gzip
import zlib
from pathlib import Path

STEM = "data"
HEAD_BYTES = 65_536
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"


def name_table(path: Path) -> str:
    """Return a name that shows a program what a file contains: `data.csv`, `data.jsonl.gz`.

    Args:
        path: A file that was accepted as a table, so it has one of a few formats.
    """
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
    """Return a table's file name suffix from its first, uncompressed bytes."""
    if head.startswith(PARQUET):
        return ".parquet"
    words = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if words.startswith(b"{"):
        return ".jsonl"
    first_line = words.partition(b"\n")[0]
    return ".tsv" if first_line.count(b"\t") > first_line.count(b",") else ".csv"
