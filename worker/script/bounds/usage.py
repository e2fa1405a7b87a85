"""How much disk space a script uses, measured at a bounded cost."""

import os
import time
from collections.abc import Callable
from pathlib import Path

BLOCK_BYTES = 512
"""Unit of `st_blocks`. Source: stat(2)."""
MAX_SHARE = 0.05
"""Share of the time that may be spent on measuring."""


class Paced:
    """A measurement that takes a bounded share of the time; between two, the last result holds.

    Args:
        measure: Returns bytes.
    """

    def __init__(
        self, measure: Callable[..., int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._again_at = -float("inf")
        self._bytes = 0

    def look(self, *arguments: object) -> int:
        """Return the bytes used; if measuring takes long, the value may be slightly old."""
        began_at = self._clock()
        if began_at >= self._again_at:
            self._bytes = self._measure(*arguments)
            ended_at = self._clock()
            self._again_at = ended_at + (ended_at - began_at) / MAX_SHARE
        return self._bytes


def measure(folder: Path) -> int:
    """Return the bytes that files below a folder use on the disk; links are not followed."""
    total = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:
            continue  # removed meanwhile, or not readable
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                total += _size(entry)
    return total


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
    except FileNotFoundError:
        return 0  # removed meanwhile
