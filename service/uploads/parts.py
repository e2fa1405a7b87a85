"""The parts of uploads as files `uploads/<id>/<number>`, which exist once they are complete."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.errors import DigestMismatch, Unavailable
from service.storage import CHUNK_BYTES, disk_errors

_INCOMPLETE = "put-"


class PartFiles:
    """The folder of all uploads.

    Args:
        folder: Created when the first part arrives.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, upload_id: str) -> None:
        """Make the folder of an upload, or renew its age."""
        path = self._folder / upload_id
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(path)

    def list_received(self, upload_id: str) -> list[int]:
        """Return the numbers of the complete parts, in order."""
        names = [path.name for path in self._paths(upload_id)]
        return sorted(int(name) for name in names if name.isdigit())

    def put(self, upload_id: str, number: int, content: bytes, *, sha256: str) -> None:
        """Store a part, durably; a part that arrives twice is replaced.

        Raises:
            DigestMismatch: The content has another digest.
            StorageFull: The disk is full.
        """
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise DigestMismatch(f"part {number} has sha256 {found}, not {sha256}; send it again")
        with disk_errors():
            _write(self._folder / upload_id, str(number), content)

    @contextmanager
    def lock(self, upload_id: str) -> Iterator[None]:
        """Hold an upload for as long as the context lasts, so that only one request joins it.

        Raises:
            FileNotFoundError: The upload has ended.
            Unavailable: Another request holds it.
        """
        fd = os.open(self._folder / upload_id, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(fd)
            yield
        finally:
            os.close(fd)  # this also ends the lock

    def read(self, upload_id: str) -> Iterator[bytes]:
        """Yield the content of all parts, in order."""
        for number in self.list_received(upload_id):
            with (self._folder / upload_id / str(number)).open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk

    def remove(self, upload_id: str) -> None:
        """Delete the parts of an upload."""
        shutil.rmtree(self._folder / upload_id, ignore_errors=True)

    def used_at(self, upload_id: str) -> float | None:
        """Return when the last part arrived (seconds since 1970); None without a folder."""
        with suppress(FileNotFoundError):
            return (self._folder / upload_id).stat().st_mtime
        return None

    def measure(self, upload_ids: Iterable[str]) -> tuple[int, int]:
        """Return the number of stored parts of uploads, and their bytes."""
        sizes = []
        for path in (path for upload_id in upload_ids for path in self._paths(upload_id)):
            with suppress(FileNotFoundError):  # its upload has just ended
                sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def list_old(self, *, older_than_seconds: float) -> list[str]:
        """Return the ids of uploads that nothing has arrived for."""
        if not self._folder.exists():
            return []
        oldest = time.time() - older_than_seconds
        return [path.name for path in self._folder.iterdir() if path.stat().st_mtime < oldest]

    def _paths(self, upload_id: str) -> list[Path]:
        folder = self._folder / upload_id
        return list(folder.iterdir()) if folder.is_dir() else []


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = (
            "another request joins the parts; repeat POST /v1/uploads later to get the data set"
        )
        raise Unavailable(message, code="upload_finishing", retry_after_seconds=2) from None


def _write(folder: Path, name: str, content: bytes) -> None:
    fd, incomplete = tempfile.mkstemp(prefix=_INCOMPLETE, dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        Path(incomplete).replace(folder / name)
    except OSError:
        Path(incomplete).unlink(missing_ok=True)
        raise
