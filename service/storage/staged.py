"""A file that is being received: counted, hashed, and removed in the end."""

import hashlib
import os
import tempfile
from pathlib import Path

from service.errors import StorageFull, TooLarge


class Staged:
    """A file in the staging folder, until it is moved to its final place.

    Args:
        folder: The staging folder.
        limit: Maximum number of bytes.
        min_free_bytes: Free bytes of disk that must remain.
    """

    def __init__(self, folder: Path, *, limit: int | None, min_free_bytes: int) -> None:
        self.size_bytes = 0
        self._limit = limit
        self._min_free_bytes = min_free_bytes
        self._folder = folder
        self._digest = hashlib.sha256()
        self._require_room(0)
        self._fd, name = tempfile.mkstemp(prefix="put-", dir=folder)
        self.path = Path(name)
        self._is_open = True

    def write(self, data: bytes | bytearray) -> None:
        """Append bytes.

        Raises:
            TooLarge: The file would be larger than the limit.
            StorageFull: The disk is full.
        """
        self.size_bytes += len(data)
        if self._limit is not None and self.size_bytes > self._limit:
            raise TooLarge(
                f"the body is larger than the limit of {self._limit} bytes; send less, or raise "
                "REDKILN_MAX_UPLOAD_BYTES (of code and ONNX files REDKILN_MAX_BUNDLE_BYTES)"
            )
        self._require_room(len(data))
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> str:
        """Make the bytes durable; return their sha256."""
        os.fsync(self._fd)
        os.close(self._fd)
        self._is_open = False
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Close and delete the file if it still exists."""
        if self._is_open:
            os.close(self._fd)
            self._is_open = False
        self.path.unlink(missing_ok=True)

    def _require_room(self, num_bytes: int) -> None:
        if self._min_free_bytes:
            require_free(self._folder, num_bytes + self._min_free_bytes)


def require_free(folder: Path, num_bytes: int) -> None:
    """Check that a disk has room.

    Raises:
        StorageFull: The disk has less than `num_bytes` free.
    """
    status = os.statvfs(folder)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < num_bytes:
        raise StorageFull(
            f"the service's disk has {free_bytes / 2**30:.2f} GiB free but needs "
            f"{num_bytes / 2**30:.2f} GiB; delete jobs or data sets"
        )
