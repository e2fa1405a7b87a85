"""What a table's file is called on a worker: what was sent has lost its name on the way."""

import gzip
import zlib
from pathlib import Path

STEM = "data"
HEAD_BYTES = 65_536
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"


def name_table(path: Path) -> str:
    """A name that tells a program's reader what is in a file: `data.csv`, `data.jsonl.gz`.

    Args:
        path: a file that was read as a table, so that it is one of few kinds.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(GZIP):
        return STEM + find_ending(head)
    try:
        with gzip.open(path) as packed:
            head = packed.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return STEM  # cut off, or compressed in another way: it is what it is
    return f"{STEM}{find_ending(head)}.gz"


def find_ending(head: bytes) -> str:
    """How the name of a table's file ends, by its first bytes, which are not compressed."""
    if head.startswith(PARQUET):
        return ".parquet"
    words = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if words.startswith(b"{"):
        return ".jsonl"
    first_line = words.partition(b"\n")[0]
    return ".tsv" if first_line.count(b"\t") > first_line.count(b",") else ".csv"
