"""The seam: what every backend does, and how bytes come in whatever the backend is.

Whatever comes in is written to the local staging folder first and hashed on the way; only when all
of it is there, is within its limit and hashes to what was announced does it get its final name.
What fails half-way leaves nothing behind, and a crash leaves only a staging file, which is swept.
"""

import asyncio
import errno
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError as ObjectStoreError

from service.errors import DigestMismatch, Gone, StorageFull, Unavailable
from service.storage.staged import Staged

CHUNK_BYTES = 1024**2
"""Bytes read at once. Starlette's default of 64 KiB reaches 0.28 of nginx's rate."""
SHA256 = re.compile(r"[0-9a-f]{64}")
_FLUSH_BYTES = 2 * CHUNK_BYTES
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Stored:
    """A blob that is safely in the storage."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ListedBlob:
    """A blob and when it was last put (seconds since 1970)."""

    sha256: str
    modified_at: float


class Storage(ABC):
    """Blobs by sha256. Putting one again refreshes its age, which protects it from removal.

    Args:
        staging_dir: local folder for what is not complete yet; made when missing.
        min_free_bytes: below this much free disk nothing is accepted.
    """

    def __init__(self, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        self.staging_dir = staging_dir
        self._min_free_bytes = min_free_bytes
        staging_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(
        self, chunks: Iterable[bytes], *, sha256: str | None = None, limit: int | None = None
    ) -> Stored:
        """Store bytes.

        Args:
            chunks: the content.
            sha256: what it must hash to, if that is known.
            limit: most bytes accepted.

        Raises:
            DigestMismatch: it hashes to something else.
            TooLarge: it is over `limit`.
            StorageFull: the disk is full.
        """
        with _disk_errors():
            staged = self._stage(limit)
            try:
                for chunk in chunks:
                    staged.write(chunk)
                return self._finish(staged, sha256)
            finally:
                staged.discard()

    def put_file(self, path: Path) -> Stored:
        """Store a copy of a local file; raises as `put`."""
        with path.open("rb") as file:
            return self.put(iter(lambda: file.read(CHUNK_BYTES), b""))

    async def put_stream(
        self,
        stream: AsyncIterable[bytes],
        *,
        sha256: str | None = None,
        limit: int | None = None,
    ) -> Stored:
        """Store a request's body while it comes in; raises as `put`.

        Hashing and writing run in a thread while the next piece is received. When the client goes
        away or the task is cancelled nothing is left.
        """
        work: asyncio.Future[Any] | None = None
        with _disk_errors():
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

    def sweep_staging(self, *, older_than_seconds: float = 0.0) -> int:
        """Remove what interrupted uploads left in the staging folder; the number of entries."""
        limit = time.time() - older_than_seconds
        num_removed = 0
        for path in self.staging_dir.iterdir():
            with suppress(FileNotFoundError):  # an upload that just ended
                if path.lstat().st_mtime > limit:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                num_removed += 1
        return num_removed

    @abstractmethod
    def stat(self, sha256: str) -> Stored | None:
        """A blob's size, or None when there is no such blob."""

    @abstractmethod
    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a blob from `start` up to, not including, `end`.

        Raises:
            Gone: there is no such blob any more.
        """

    @abstractmethod
    def delete(self, sha256: str) -> None:
        """Remove a blob; nothing happens when there is none."""

    @abstractmethod
    def list_blobs(self) -> Iterator[ListedBlob]:
        """Every blob, in no order."""

    @abstractmethod
    def local_path(self, sha256: str) -> Path | None:
        """The file of a blob where it is stored as one, else None."""

    @contextmanager
    def local_copy(self, sha256: str) -> Iterator[Path]:
        """A blob as a file for as long as the context lasts.

        Raises:
            Gone: there is no such blob any more.
            StorageFull: there is no room for a copy.
        """
        path = self.local_path(sha256)
        if path is not None:
            yield path
            return
        with _disk_errors():
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
        """Give a complete staged file its final place."""

    def _stage(self, limit: int | None) -> Staged:
        return Staged(self.staging_dir, limit=limit, min_free_bytes=self._min_free_bytes)

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
    """The error of a blob that is not there any more."""
    return Gone(f"the content {sha256} has been deleted")


async def _gather(stream: AsyncIterable[bytes]) -> AsyncIterator[bytearray]:
    """The pieces of a body joined to buffers worth a thread's while."""
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
        work.exception()  # raised to whoever awaited it; read here in case nobody did
    await asyncio.to_thread(staged.discard)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull("the service's disk is full; delete jobs or data sets") from error
    except ObjectStoreError as error:
        raise Unavailable(f"the object store failed: {error}") from error
