"""The log of an attempt: one file, written at offsets, with a quota in bytes.

The attempt's row has the log's size. Bytes after that were written by a transaction that did not
commit; they are never shown, and the next write overwrites them.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from redkiln.protocol import LogChunk


@dataclass(frozen=True)
class LogWindow:
    """A piece of a log.

    Attributes:
        end: Offset of the first byte after the piece.
    """

    data: bytes
    end: int


def log_path(logs_dir: Path, attempt_id: str) -> Path:
    """Return the log file of an attempt."""
    return logs_dir / f"{attempt_id}.log"


def append_chunk(path: Path, chunk: LogChunk, *, size: int, quota: int) -> int:
    """Write the new bytes of a chunk, within the quota.

    Args:
        path: The log file; created if missing.
        chunk: Bytes that may repeat stored ones; a chunk that starts after the end is ignored.
        size: Size of the log so far, in bytes.
        quota: Maximum size of the log, in bytes.

    Returns:
        The new size of the log.

    Raises:
        OSError: The disk is full.
    """
    if chunk.offset > size:
        return size
    new = chunk.data[size - chunk.offset :][: max(0, quota - size)]
    if not new:
        return size
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(new)
        offset = size
        while view:
            written = os.pwrite(fd, view, offset)
            view, offset = view[written:], offset + written
    finally:
        os.close(fd)
    return offset


def read_window(path: Path, *, start: int, end: int) -> LogWindow:
    """Return the bytes of a log from `start` to `end` (exclusive); fewer if some are missing."""
    if start >= end or not path.exists():
        return LogWindow(b"", min(start, end))
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(fd, end - start, start)
    finally:
        os.close(fd)
    return LogWindow(data, start + len(data))


def find_tail(path: Path, *, size: int, lines: int, window_bytes: int = 64 * 1024) -> int:
    """Return the offset where the last `lines` lines of a log start."""
    if lines <= 0:
        return size
    end = size
    while end > 0:
        start = max(0, end - window_bytes)
        data = read_window(path, start=start, end=end).data
        if end == size:
            data = data.removesuffix(b"\n")  # it ends the last line and begins none
        num_found = data.count(b"\n")
        if num_found >= lines:
            place = len(data)
            for _ in range(lines):
                place = data.rfind(b"\n", 0, place)
            return start + place + 1
        lines, end = lines - num_found, start
    return 0
