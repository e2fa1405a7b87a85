"""Blobs as files in a local folder."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from service.storage.seam import CHUNK_BYTES, SHA256, ListedBlob, Storage, Stored, gone
from service.storage.staged import Staged


class LocalStorage(Storage):
    """Blobs as files `blobs/<first 2>/<sha256>`, durable when `put` returns."""

    def __init__(self, blobs_dir: Path, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        super().__init__(staging_dir, min_free_bytes=min_free_bytes)
        self._blobs_dir = blobs_dir
        blobs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stat(self, sha256: str) -> Stored | None:
        """Return a blob's size, or None if there is no such blob."""
        path = self.local_path(sha256)
        return None if path is None else Stored(sha256, path.stat().st_size)

    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Return the bytes of a blob; see `Storage.open`."""
        try:
            fd = os.open(self._path(sha256), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise gone(sha256) from None
        return _read(fd, start, end)

    def delete(self, sha256: str) -> None:
        """Delete a blob if it exists."""
        self._path(sha256).unlink(missing_ok=True)

    def list_blobs(self) -> Iterator[ListedBlob]:
        """Yield every blob, in no particular order."""
        for path in self._blobs_dir.glob("??/*"):
            with suppress(FileNotFoundError):  # deleted in the meantime
                if SHA256.fullmatch(path.name):
                    yield ListedBlob(path.name, path.stat().st_mtime)

    def local_path(self, sha256: str) -> Path | None:
        """Return the path of a blob's file, or None if there is no such blob."""
        if not SHA256.fullmatch(sha256):
            return None
        path = self._path(sha256)
        return path if path.is_file() else None

    def _keep(self, staged: Staged, sha256: str) -> None:
        path = self._path(sha256)
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            sync_dir(self._blobs_dir)
        # Replace even an equal blob: this renews its age and repairs a damaged file.
        staged.path.replace(path)
        sync_dir(path.parent)

    def _path(self, sha256: str) -> Path:
        if not SHA256.fullmatch(sha256):
            raise ValueError(f"not a sha256: {sha256!r}")
        return self._blobs_dir / sha256[:2] / sha256


def _read(fd: int, start: int, end: int | None) -> Iterator[bytes]:
    try:
        position = start
        while end is None or position < end:
            size = CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - position)
            chunk = os.pread(fd, size, position)
            if not chunk:
                return
            position += len(chunk)
            yield chunk
    finally:
        os.close(fd)


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
