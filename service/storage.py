"""Where bytes are kept: put, open, stat, delete, by sha256, over a local folder or an S3 store.

Whatever comes in is written to the local staging folder first and hashed on the way; only when all
of it is there, is within its limit and hashes to what was announced does it get its final name.
What fails half-way leaves nothing behind, and a crash leaves only a staging file, which is swept.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError as ObjectStoreError
from obstore.store import from_url

from service.errors import DigestMismatch, Gone, StorageFull, TooLarge, Unavailable
from service.settings import Settings

CHUNK_BYTES = 1024**2
"""Bytes read at once. Starlette's default of 64 KiB reaches 0.28 of nginx's rate."""
_FLUSH_BYTES = 2 * CHUNK_BYTES
_SHA256 = re.compile(r"[0-9a-f]{64}")
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
    def _keep(self, staged: "Staged", sha256: str) -> None:
        """Give a complete staged file its final place."""

    def _stage(self, limit: int | None) -> "Staged":
        return Staged(self.staging_dir, limit=limit, min_free_bytes=self._min_free_bytes)

    def _finish(self, staged: "Staged", sha256: str | None) -> Stored:
        found = staged.close()
        if sha256 is not None and found != sha256:
            raise DigestMismatch(
                f"the {staged.size_bytes} bytes received hash to {found}, not to {sha256}; "
                "send them again"
            )
        self._keep(staged, found)
        return Stored(found, staged.size_bytes)


class LocalStorage(Storage):
    """Blobs as files `blobs/<first 2>/<sha256>`, durable when `put` returns."""

    def __init__(self, blobs_dir: Path, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        super().__init__(staging_dir, min_free_bytes=min_free_bytes)
        self._blobs_dir = blobs_dir
        blobs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stat(self, sha256: str) -> Stored | None:
        """A blob's size, or None when there is no such blob."""
        path = self.local_path(sha256)
        return None if path is None else Stored(sha256, path.stat().st_size)

    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a blob; see `Storage.open`."""
        try:
            fd = os.open(self._path(sha256), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _gone(sha256) from None
        return _read(fd, start, end)

    def delete(self, sha256: str) -> None:
        """Remove a blob; nothing happens when there is none."""
        self._path(sha256).unlink(missing_ok=True)

    def list_blobs(self) -> Iterator[ListedBlob]:
        """Every blob, in no order."""
        for path in self._blobs_dir.glob("??/*"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                if _SHA256.fullmatch(path.name):
                    yield ListedBlob(path.name, path.stat().st_mtime)

    def local_path(self, sha256: str) -> Path | None:
        """The file of a blob, or None when there is no such blob."""
        if not _SHA256.fullmatch(sha256):
            return None
        path = self._path(sha256)
        return path if path.is_file() else None

    def _keep(self, staged: "Staged", sha256: str) -> None:
        path = self._path(sha256)
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _sync_dir(self._blobs_dir)
        # Also over an equal blob: it renews the age, and heals a damaged file.
        staged.path.replace(path)
        _sync_dir(path.parent)

    def _path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"not a sha256: {sha256!r}")
        return self._blobs_dir / sha256[:2] / sha256


class ObjectStorage(Storage):
    """Blobs as objects `blobs/<first 2>/<sha256>` of an S3-compatible store.

    Args:
        store: an `obstore` store; bucket, prefix and credentials are its own.
    """

    def __init__(self, store: Any, staging_dir: Path, *, min_free_bytes: int = 0) -> None:
        super().__init__(staging_dir, min_free_bytes=min_free_bytes)
        self._store = store

    def stat(self, sha256: str) -> Stored | None:
        """A blob's size, or None when there is no such blob."""
        if not _SHA256.fullmatch(sha256):
            return None
        try:
            return Stored(sha256, obstore.head(self._store, _key(sha256))["size"])
        except FileNotFoundError:
            return None

    def open(self, sha256: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a blob; see `Storage.open`."""
        stored = self.stat(sha256)
        if stored is None:
            raise _gone(sha256)
        end = stored.size_bytes if end is None else min(end, stored.size_bytes)
        if start >= end:
            return iter(())
        result = obstore.get(self._store, _key(sha256), options={"range": (start, end)})
        return (bytes(chunk) for chunk in result.stream(min_chunk_size=CHUNK_BYTES))

    def delete(self, sha256: str) -> None:
        """Remove a blob; nothing happens when there is none."""
        if self.stat(sha256) is not None:
            obstore.delete(self._store, _key(sha256))

    def list_blobs(self) -> Iterator[ListedBlob]:
        """Every blob, in no order."""
        for page in obstore.list(self._store, prefix="blobs"):
            for item in page:
                name = item["path"].rpartition("/")[2]
                if _SHA256.fullmatch(name):
                    yield ListedBlob(name, item["last_modified"].timestamp())

    def local_path(self, sha256: str) -> Path | None:  # noqa: ARG002  of the seam
        """None: objects are no files of this machine."""
        return None

    def _keep(self, staged: "Staged", sha256: str) -> None:
        obstore.put(self._store, _key(sha256), staged.path)


class Staged:
    """A file of the staging folder that is being received: counted, hashed, and removed in the end.

    Args:
        folder: the staging folder.
        limit: most bytes accepted.
        min_free_bytes: free disk that must be left.
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
            TooLarge: they are more than the limit.
            StorageFull: the disk is full.
        """
        self.size_bytes += len(data)
        if self._limit is not None and self.size_bytes > self._limit:
            raise TooLarge(f"the body is over the limit of {self._limit} bytes")
        self._require_room(len(data))
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> str:
        """Make the bytes durable; their sha256."""
        os.fsync(self._fd)
        os.close(self._fd)
        self._is_open = False
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Close and remove the file, if it is still there."""
        if self._is_open:
            os.close(self._fd)
            self._is_open = False
        self.path.unlink(missing_ok=True)

    def _require_room(self, num_bytes: int) -> None:
        if self._min_free_bytes:
            require_free(self._folder, num_bytes + self._min_free_bytes)


def build_storage(settings: Settings) -> Storage:
    """The storage that the settings ask for."""
    staging_dir = settings.state_dir / "staging"
    if settings.storage_url is not None:
        store = from_url(settings.storage_url)
        return ObjectStorage(store, staging_dir, min_free_bytes=settings.min_free_bytes)
    return LocalStorage(
        settings.state_dir / "blobs", staging_dir, min_free_bytes=settings.min_free_bytes
    )


def require_free(folder: Path, num_bytes: int) -> None:
    """Make sure that a disk has room.

    Raises:
        StorageFull: it has less than `num_bytes` left.
    """
    status = os.statvfs(folder)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < num_bytes:
        raise StorageFull(
            f"the service's disk has {free_bytes / 2**30:.2f} GiB free, and "
            f"{num_bytes / 2**30:.2f} GiB are wanted; delete data sets or jobs"
        )


def _key(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{sha256}"


def _gone(sha256: str) -> Gone:
    return Gone(f"the content {sha256} was removed")


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


def _sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
        raise StorageFull("the service's disk is full; delete data sets or jobs") from error
    except ObjectStoreError as error:
        raise Unavailable(f"the object store failed: {error}") from error
