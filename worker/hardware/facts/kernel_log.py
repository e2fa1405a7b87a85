"""The kernel's log, if this process may read it: from `/dev/kmsg`, or from a text file.

A reader that is opened before a child starts sees only later messages. A container usually may not
read the log (EPERM); then there are no lines, and nothing is concluded from that.
"""

import os
import re
from pathlib import Path
from typing import Self

KMSG = Path("/dev/kmsg")
MAX_LINES = 2000
"""Most lines kept from one reading; the latest are kept."""

ABOUT_GPUS = re.compile(r"amdgpu|kfd|\bdrm\b|AMD-Vi|iommu|MES |HIQ MQD|dxgk", re.IGNORECASE)
_RECORD = re.compile(r"\d+,\d+,\d+,[^;]*;(.*)")


class KernelLog:
    """Reads the log from where it was opened.

    Args:
        path: `/dev/kmsg`, or a growing text file.
        from_start: Whether to read existing messages too.
    """

    def __init__(self, path: Path = KMSG, *, from_start: bool = False) -> None:
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not from_start:
                os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_readable(self) -> bool:
        """Whether this process may read the log."""
        return self._fd is not None

    def read(self) -> list[str]:
        """Return the lines about GPUs since the last call; empty if the log cannot be read."""
        text = "".join(iter(self._read_chunk, ""))
        return [line for line in to_lines(text) if ABOUT_GPUS.search(line)][-MAX_LINES:]

    def close(self) -> None:
        """Stop reading."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read_chunk(self) -> str:
        while self._fd is not None:
            try:
                return os.read(self._fd, 65536).decode(errors="replace")
            except BrokenPipeError:
                continue  # messages were overwritten meanwhile; the kernel has moved the position
            except OSError:
                break  # EAGAIN: there is nothing more to read
        return ""


def read_kernel_log(path: Path = KMSG) -> tuple[str, ...] | None:
    """Return all GPU messages that the kernel still has; None if the log is not readable."""
    with KernelLog(path, from_start=True) as log:
        return tuple(log.read()) if log.is_readable else None


def to_lines(text: str) -> list[str]:
    """Extract the messages from readings of `/dev/kmsg`, or the lines of `dmesg` output.

    Source: Documentation/ABI/testing/dev-kmsg of the Linux kernel: one record for each read,
    `priority,sequence,microseconds,flags;message`, continued by lines that begin with a blank.
    """
    lines = []
    for line in text.splitlines():
        if line.startswith(" "):
            continue  # KEY=value of the record above
        record = _RECORD.match(line)
        lines.append(record.group(1) if record else line)
    return lines
