"""Blobs as objects of an S3-compatible store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore

from service.storage.seam import CHUNK_BYTES, SHA256, ListedBlob, Storage, Stored, gone
from service.storage.staged import Staged


class ObjectStorage(Storage):
    """Blobs as objects `blobs/<first 2>/<sha256>` of an S3-compatible store.

    Args:
        store: An `obstore` store, which knows bucket, prefix and credentials.
    """

    def __init__(self, store: Any, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        super().__init__(staging_dir, min_free_bytes=min_free_bytes)
        self._store = store

    def stat(self, sha256: str) -> Stored | None:
        """Return a blob's size, or None if there is no such blob."""
        if not SHA256.fullmatch(sha256):
            return None
        try:
            return Stored(sha256, obstore.head(self._store, _key(sha256))["size"])
        except FileNotFoundError:
            return None

    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Return the bytes of a blob; see `Storage.open`."""
        stored = self.stat(sha256)
        if stored is None:
            raise gone(sha256)
        end = stored.size_bytes if end is None else min(end, stored.size_bytes)
        if start >= end:
            return iter(())
        result = obstore.get(self._store, _key(sha256), options={"range": (start, end)})
        return (bytes(chunk) for chunk in result.stream(min_chunk_size=CHUNK_BYTES))

    def delete(self, sha256: str) -> None:
        """Delete a blob if it exists."""
        if self.stat(sha256) is not None:
            obstore.delete(self._store, _key(sha256))

    def list_blobs(self) -> Iterator[ListedBlob]:
        """Yield every blob, in no particular order."""
        for page in obstore.list(self._store, prefix="blobs"):
            for item in page:
                name = item["path"].rpartition("/")[2]
                if SHA256.fullmatch(name):
                    yield ListedBlob(name, item["last_modified"].timestamp())

    def local_path(self, sha256: str) -> Path | None:  # noqa: ARG002  required by Storage
        """Return None: objects are not local files."""
        return None

    def _keep(self, staged: Staged, sha256: str) -> None:
        obstore.put(self._store, _key(sha256), staged.path)


def _key(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{sha256}"
