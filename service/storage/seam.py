"""The interface of every storage backend, and how all of them receive bytes.

Received bytes are first written to the local staging folder and hashed on the way. The file gets
its final name only when it is complete, within its limit and has the announced digest. A failed
upload leaves nothing behind; a crash leaves only a staging file, which the next start removes.
"""

import asyncio
import errno
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError as ObjectStoreError

from service.errors import DigestMismatch, Gone, StorageFull, Unavailable
from service.storage import staging
from service.storage.staged import Staged

CHUNK_BYTES = 1024**2
"""Bytes read at once. Starlette's default of 64 KiB reaches 0.28 of nginx's rate."""
SHA256 = re.compile(r"[0-9a-f]{64}")
_FLUSH_BYTES = 2 * CHUNK_BYTES
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Stored:
    """A blob that is safely stored."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ListedBlob:
    """A blob and the time of its last `put` (seconds since 1970)."""

    sha256: str
    modified_at: float


class Storage(ABC):
    """Blobs by sha256. Storing one again renews its age, which protects it from deletion.

    Args:
        staging_dir: Local folder for incomplete uploads; created if missing.
        min_free_bytes: Free bytes of disk below which nothing is accepted.
    """

    def __init__(self, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        self._staging_dir = staging_dir
        self._min_free_bytes = min_free_bytes
        staging_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    @cached_property
    def work_dir(self) -> Path:
        """This process's folder for files that are not complete yet."""
        return staging.open_own_folder(self._staging_dir)

    def put(
        self, chunks: Iterable[bytes], *, sha256: str | None = None, limit: int | None = None
    ) -> Stored:
        """Store bytes.

        Args:
            chunks: The content in pieces.
            sha256: Expected digest, if it is known.
            limit: Maximum number of bytes.

        Raises:
            DigestMismatch: The content has another digest.
            TooLarge: The content has more than `limit` bytes.
            StorageFull: The disk is full.
        """
        with disk_errors():
            staged = self._stage(limit)
            try:
                for chunk in chunks:
                    staged.write(chunk)
                return self._finish(staged, sha256)
            finally:
                staged.discard()

    def put_file(self, path: Path) -> Stored:
        """Store a copy of a local file; raises the same errors as `put`."""
        with path.open("rb") as file:
            return self.put(iter(lambda: file.read(CHUNK_BYTES), b""))

    async def put_stream(
        self,
        stream: AsyncIterable[bytes],
        *,
        sha256: str | None = None,
        limit: int | None = None,
    ) -> Stored:
        """Store a request's body while it arrives; raises the same errors as `put`.

        A thread hashes and writes one piece while the next one is received. If the client
        disconnects or the task is cancelled, nothing is left behind.
        """
        work: asyncio.Future[Any] | None = None
        with disk_errors():
            staged = self._stage(limit)
            try:
                async for buffer in _gather(stream):
                    if work is not None:
                        await asyncio.shield(work)
                    work = asyncio.ensure_future(asyncio.to_thread(staged.write, buffer))
                if work is not None:
                    await asyncio.shield(work)
                work = asyncio.ensure_future(asyncio.to_thread(self._finish, staged, sha256))
                stored: Stored = await asyncio.shield(work)
                return stored
            finally:
                await asyncio.shield(_release(staged, work))

    def sweep_staging(self) -> int:
        """Remove what processes left that have ended; return the number of entries."""
        return staging.sweep(self._staging_dir)

    @abstractmethod
    def stat(self, sha256: str) -> Stored | None:
        """Return a blob's size, or None if there is no such blob."""

    @abstractmethod
    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Return the bytes of a blob from `start` to `end` (exclusive).

        Raises:
            Gone: The blob has been deleted.
        """

    @abstractmethod
    def delete(self, sha256: str) -> None:
        """Delete a blob if it exists."""

    @abstractmethod
    def list_blobs(self) -> Iterator[ListedBlob]:
        """Return every blob, in no particular order."""

    @abstractmethod
    def local_path(self, sha256: str) -> Path | None:
        """Return the path of a blob that is stored as a local file, else None."""

    @contextmanager
    def local_copy(self, sha256: str) -> Iterator[Path]:
        """Yield a blob as a file for as long as the context lasts.

        Raises:
            Gone: The blob has been deleted.
            StorageFull: The disk has no room for a copy.
        """
        path = self.local_path(sha256)
        if path is not None:
            yield path
            return
        with disk_errors():
            staged = self._stage(None)
            try:
                for chunk in self.open(sha256):
                    staged.write(chunk)
                staged.close()
                yield staged.path
            finally:
                staged.discard()

    @abstractmethod
    def _keep(self, staged: Staged, sha256: str) -> None:
        """Move a complete staged file to its final place."""

    def _stage(self, limit: int | None) -> Staged:
        return Staged(self.work_dir, limit=limit, min_free_bytes=self._min_free_bytes)

    def _finish(self, staged: Staged, sha256: str | None) -> Stored:
        found = staged.close()
        if sha256 is not None and found != sha256:
            raise DigestMismatch(
                f"the {staged.size_bytes} received bytes have sha256 {found}, not {sha256}; "
                "send them again"
            )
        self._keep(staged, found)
        return Stored(found, staged.size_bytes)


def gone(sha256: str) -> Gone:
    """Build the error for a blob that has been deleted."""
    return Gone(f"the content {sha256} has been deleted")


async def _gather(stream: AsyncIterable[bytes]) -> AsyncIterator[bytearray]:
    """Yield the pieces of a body joined to buffers large enough to hand to a thread."""
    buffer = bytearray()
    async for piece in stream:
        buffer += piece
        if len(buffer) >= _FLUSH_BYTES:
            yield buffer
            buffer = bytearray()
    if buffer:
        yield buffer


async def _release(staged: Staged, work: asyncio.Future[Any] | None) -> None:
    """Remove a staged file once the thread that may still write to it is done."""
    if work is not None:
        await asyncio.wait([work])
        work.exception()  # retrieve it, in case nobody has awaited the future
    await asyncio.to_thread(staged.discard)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of a full disk or of the object store into errors that a client understands.

    Raises:
        StorageFull: The disk is full.
        Unavailable: The object store failed.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull("the service's disk is full; delete jobs or data sets") from error
    except ObjectStoreError as error:
        raise Unavailable(f"the object store failed: {error}") from error
