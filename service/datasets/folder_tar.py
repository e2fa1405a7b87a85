"""Streams a registered folder as a tar, for workers that cannot access it.

The tar has exactly the files of the index, sorted by path, without owners and times: the same index
gives the same bytes. A file that differs from the index ends the stream early, so that nobody
mistakes a changed data set for the validated one.
"""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence

from redkiln.datasets import ImageFile, ImageIndex
from service.datasets import beneath
from service.errors import Gone
from service.storage import CHUNK_BYTES

_END = b"\0" * (2 * tarfile.BLOCKSIZE)


def list_samples(index: ImageIndex) -> list[ImageFile]:
    """Return one sample for each file, sorted by path."""
    samples = (sample for split in index.splits.values() for sample in split)
    return sorted({s.path: s for s in samples}.values(), key=lambda sample: sample.path)


def stream_tar(folder_fd: int, samples: Sequence[ImageFile]) -> Iterator[bytes]:
    """Yield the tar in pieces of about 1 MiB; close `folder_fd` at the end.

    Raises:
        Gone: A file has changed or disappeared since it was indexed.
    """
    buffer = bytearray()
    try:
        for sample in samples:
            for piece in _stream_member(folder_fd, sample):
                buffer += piece
                if len(buffer) >= CHUNK_BYTES:
                    yield bytes(buffer)
                    buffer.clear()
        yield bytes(buffer + _END)
    finally:
        os.close(folder_fd)


def _stream_member(folder_fd: int, sample: ImageFile) -> Iterator[bytes]:
    digest = hashlib.sha256()
    with os.fdopen(_open_sample(folder_fd, sample), "rb") as file:
        status = os.fstat(file.fileno())
        info = tarfile.TarInfo(sample.path)
        info.size = status.st_size
        yield info.tobuf(format=tarfile.PAX_FORMAT, encoding="utf-8")
        left = status.st_size
        while left and (piece := file.read(min(left, CHUNK_BYTES))):
            left -= len(piece)
            digest.update(piece)
            yield piece
    if left or digest.hexdigest() != sample.sha256 or not stat.S_ISREG(status.st_mode):
        raise _changed(sample)
    yield b"\0" * (-status.st_size % tarfile.BLOCKSIZE)


def _open_sample(folder_fd: int, sample: ImageFile) -> int:
    *folders, name = sample.path.split("/")
    try:
        parent_fd = beneath.open_folder(folder_fd, folders)
        try:
            return beneath.open_file(parent_fd, name)
        finally:
            os.close(parent_fd)
    except OSError:
        raise _changed(sample) from None


def _changed(sample: ImageFile) -> Gone:
    return Gone(
        f"{sample.path} has changed since the folder was registered; register the folder again",
        code="dataset_changed",
    )
