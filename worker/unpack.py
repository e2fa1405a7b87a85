"""Unpacks users' archives: only regular files and folders, within the folder, up to a size."""

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed

MAX_MEMBERS = 1_000_000
MAX_BYTES = 512 * 1024**3
MAX_CODE_BYTES = 4 * 1024**3
"""Limit for an unpacked bundle. Its tar is not compressed, so this only limits sparse files."""
CHUNK_BYTES = 1 << 20
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError),
    *(zlib.error, lzma.LZMAError, gzip.BadGzipFile),
    *(NotImplementedError, RuntimeError),  # a zip with another compression, or encrypted
)
"""What the readers of archives raise for a damaged one, or one that they cannot read."""


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar, plain or compressed, or a zip; its content may be damaged."""
    with path.open("rb") as file:
        starts_as_zip = file.read(2) == b"PK"
    if starts_as_zip:
        return zipfile.is_zipfile(path)
    try:
        return tarfile.is_tarfile(path)
    except _DAMAGED:
        return False


def unpack(
    archive: Path,
    folder: Path,
    *,
    what: str,
    max_bytes: int = MAX_BYTES,
    beat: Callable[[], None] = lambda: None,
) -> int:
    """Unpack a tar or zip into a folder.

    Links, devices and pipes are refused rather than skipped: a program that needs them would fail
    later and elsewhere.

    Args:
        archive: Path of a tar (plain or compressed) or a zip.
        folder: Existing folder to unpack into.
        what: Name of the archive, for messages.
        max_bytes: Largest size of all files together.
        beat: Called repeatedly meanwhile.

    Returns:
        The number of files written.

    Raises:
        TrainingFailed: The archive is damaged, or a name leads out of the folder or is not a
            regular file; the message contains the name.
    """
    left_bytes = max_bytes
    num_files = 0
    try:
        with _open(archive, what) as members:
            for number, (name, size_bytes, mode, chunks) in enumerate(members):
                target = _place(folder, name, what)
                left_bytes -= max(0, size_bytes)
                if left_bytes < 0 or number >= MAX_MEMBERS:
                    why = f"it unpacks to more than {max_bytes} bytes or {MAX_MEMBERS} files"
                    raise _refuse(what, why)
                if chunks is None:
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    for chunk in chunks:
                        file.write(chunk)
                        beat()
                target.chmod(0o755 if mode & 0o100 else 0o644)
                num_files += 1
    except _DAMAGED as error:
        raise _refuse(what, f"it is damaged or encrypted: {error}") from error
    return num_files


Unpacked = tuple[str, int, int, Iterator[bytes] | None]
"""Name, size, mode, and content; None for a folder."""


@contextmanager
def _open(archive: Path, what: str) -> Iterator[Iterator[Unpacked]]:
    with archive.open("rb") as file:
        starts_as_zip = file.read(2) == b"PK"
    if starts_as_zip:
        with zipfile.ZipFile(archive) as packed:
            yield _zip_members(packed, what)
    else:
        with tarfile.open(archive) as packed:
            yield _tar_members(packed, what)


def _tar_members(packed: tarfile.TarFile, what: str) -> Iterator[Unpacked]:
    for member in packed:
        if member.isdir():
            yield member.name, 0, member.mode, None
        elif member.isreg():
            content = packed.extractfile(member)
            assert content is not None
            yield member.name, member.size, member.mode, _read(content)
        else:
            kind = "a link" if member.issym() or member.islnk() else "not a regular file"
            raise _refuse(what, f"{member.name!r} is {kind}; pack the file itself")


def _zip_members(packed: zipfile.ZipFile, what: str) -> Iterator[Unpacked]:
    for member in packed.infolist():
        mode = member.external_attr >> 16
        if mode & 0o170000 == 0o120000:
            raise _refuse(what, f"{member.filename!r} is a link; pack the file itself")
        if member.is_dir():
            yield member.filename, 0, mode, None
        else:
            yield member.filename, member.file_size, mode, _read(packed.open(member))


def _read(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while chunk := content.read(CHUNK_BYTES):
            yield chunk


def _place(folder: Path, name: str, what: str) -> Path:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise _refuse(what, f"{name!r} leads out of the folder")
    if parts == (".",):
        return folder
    return folder.joinpath(*(part for part in parts if part != "."))


def _refuse(what: str, why: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, f"the {what} cannot be unpacked: {why}")
