"""Checks a folder of images against its index, in place or while it is unpacked from a tar."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from redkiln.annotations import parse_image_index
from redkiln.datasets import ImageFile
from worker.agent.client import ServiceAway
from worker.agent.data.transfer import CHUNK_BYTES, WrongDigest
from worker.agent.stopping import StopSignal
from worker.beneath import open_beneath


def list_samples(index_path: Path) -> list[ImageFile]:
    """Return one sample for each file of an index, over all splits."""
    index = parse_image_index(index_path.read_bytes())
    samples = (sample for samples in index.splits.values() for sample in samples)
    return list({sample.path: sample for sample in samples}.values())


def find_difference(
    folder: Path, samples: list[ImageFile], *, stamp_path: Path, stop: StopSignal
) -> str | None:
    """Return the first file of the folder that differs from its index; None if all match.

    The first call hashes every file. Later calls compare sizes and modification times with those
    stored at `stamp_path`. A file behind a symbolic link counts as different.

    Raises:
        Stopped: The attempt was asked to stop meanwhile.
    """
    stamp = hashlib.sha256(str(identify(folder)).encode())
    for sample in samples:
        try:
            stat = (folder / sample.path).lstat()
        except OSError as error:
            return f"{sample.path}: {error.strerror}"
        stamp.update(f"{sample.path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    if stamp_path.exists() and json.loads(stamp_path.read_text()) == stamp.hexdigest():
        return None
    for sample in samples:
        stop.check()
        try:
            with open_beneath(folder, sample.path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            return f"{sample.path}: {error.strerror}"
        if digest != sample.sha256:
            return f"{sample.path}: its content changed"
    stamp_path.write_text(json.dumps(stamp.hexdigest()))
    return None


def identify(folder: Path) -> tuple[int, int]:
    """Return the device and inode of a folder."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def unpack_samples(
    chunks: Iterator[bytes],
    folder: Path,
    samples: list[ImageFile],
    *,
    stop: StopSignal,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """Write the files of a tar that the index names, and check each against it.

    Raises:
        WrongDigest: A file is missing or differs from the index.
        ServiceAway: The stream ended early.
        Stopped: The attempt was asked to stop meanwhile.
    """
    missing = {sample.path: sample.sha256 for sample in samples}
    size = 0
    stream = io.BufferedReader(_ChunkReader(chunks), CHUNK_BYTES)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                stop.check()
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or member.name not in missing or not _is_below(member.name):
                    continue
                if _write_file(content, folder / member.name) != missing.pop(member.name):
                    raise WrongDigest(f"{member.name} has changed since it was registered")
                size += member.size
                on_bytes(size)
    except tarfile.ReadError as error:
        raise ServiceAway(f"the tar ended early: {error}") from error
    if missing:
        raise WrongDigest(f"{next(iter(missing))} is missing; it existed at registration")


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _write_file(content: IO[bytes], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


class _ChunkReader(io.RawIOBase):
    """A file object over a stream of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
