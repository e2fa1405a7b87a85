"""Downloads that can be interrupted: resumed, verified, and only then given their final name."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import httpx

from redkiln.client.connection import Connection, RetryPolicy, failure_of, retry_delay
from redkiln.errors import ApiError, ConnectionFailed, DigestMismatch, TransferError
from redkiln.views.artifact import ArtifactView

CHUNK_BYTES = 1 << 20
OnBytes = Callable[[int], None]


class Download:
    """The download of one artifact to a file.

    The bytes go to a `.part` file named by the digest, which the next call resumes. Only a whole
    and verified file gets its final name.

    Args:
        connection: Connection to the service.
        artifact: Artifact to download.
        path: File to write.
        policy: How often to reconnect when a connection breaks without any progress.
        on_bytes: Called with the number of new bytes on disk (negative if a part was discarded).
        sleep: Waits between two attempts.
    """

    def __init__(
        self,
        connection: Connection,
        artifact: ArtifactView,
        path: Path,
        *,
        policy: RetryPolicy | None = None,
        on_bytes: OnBytes | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._artifact = artifact
        self._path = path
        self._part = path.with_name(f"{path.name}.{artifact.sha256[:12]}.part")
        self._policy = policy or RetryPolicy()
        self._on_bytes = on_bytes
        self._sleep = sleep
        self._size = 0
        self._sha256 = hashlib.sha256()

    def run(self) -> Path:
        """Download the file, unless it is already there with the right content.

        Raises:
            ApiError, ConnectionFailed: As for any request.
            DigestMismatch: A file downloaded from start to end differs from the published one.
            TransferError: The file cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._is_there():
                self._report(self._artifact.size_bytes)
                return self._path
            was_resumed = self._part.exists()
            try:
                self._complete()
            except DigestMismatch:
                if not was_resumed:
                    raise
                self._complete()
            self._part.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            reason = error.strerror or str(error)
            raise TransferError(f"{self._path} cannot be written: {reason}") from error
        return self._path

    def _is_there(self) -> bool:
        if not self._path.is_file() or self._path.stat().st_size != self._artifact.size_bytes:
            return False
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self._artifact.sha256

    def _complete(self) -> None:
        """Complete the part file, however often the connection breaks, and verify it."""
        with self._part.open("a+b") as file:
            self._take_what_is_there(file)
            failures = 0
            while self._size < self._artifact.size_bytes:
                before = self._size
                try:
                    self._fetch_rest(file)
                except (ApiError, ConnectionFailed) as error:
                    failures = 1 if self._size > before else failures + 1
                    delay = retry_delay(
                        failure_of(error), attempt=failures, repeatable=True, policy=self._policy
                    )
                    if delay is None:
                        raise
                    self._sleep(delay)
            file.flush()
            os.fsync(file.fileno())
        actual = self._sha256.hexdigest()
        if actual != self._artifact.sha256:
            self._report(-self._size)
            self._part.unlink()
            raise DigestMismatch(self._artifact.name, expected=self._artifact.sha256, actual=actual)

    def _take_what_is_there(self, file: BinaryIO) -> None:
        self._size, self._sha256 = 0, hashlib.sha256()
        if file.seek(0, os.SEEK_END) > self._artifact.size_bytes:
            file.truncate(0)
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            self._sha256.update(chunk)
            self._size += len(chunk)
        self._report(self._size)

    def _fetch_rest(self, file: BinaryIO) -> None:
        url = f"/v1/artifacts/{self._artifact.id}/content"
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        if self._size:
            etag = f'"sha256-{self._artifact.sha256}"'
            headers |= {"Range": f"bytes={self._size}-", "If-Range": etag}
        with self._connection.stream(url, headers=headers) as response:
            if self._size and response.status_code != httpx.codes.PARTIAL_CONTENT:
                self._report(-self._size)
                file.truncate(0)
                self._size, self._sha256 = 0, hashlib.sha256()
            for chunk in response.iter_raw():
                file.write(chunk)
                self._sha256.update(chunk)
                self._size += len(chunk)
                self._report(len(chunk))
        if self._size < self._artifact.size_bytes:
            raise ConnectionFailed(self._connection.url, "the download ended early")

    def _report(self, num_bytes: int) -> None:
        if self._on_bytes and num_bytes:
            self._on_bytes(num_bytes)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
