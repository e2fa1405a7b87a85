"""Reserves a little disk space, so that a run on a full disk can still report why it ended."""

import os
from pathlib import Path

RESERVE_BYTES = 64 * 1024


class Reserve:
    """A file that exists only to be removed."""

    def __init__(self, folder: Path, *, rank: int = 0) -> None:
        self._path = folder / (f".reserve-{rank}" if rank else ".reserve")
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Free the reserved space."""
        self._path.unlink(missing_ok=True)
