"""A folder as a deterministic tar: the same files give the same bytes, so the same sha256.

Only names, contents and their order go in; owners, times and modes do not. Links are followed, as
their targets are what the user sees in the folder; hidden files and what operating systems leave
behind are left out.
"""

import hashlib
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redkiln.errors import PackingError
from redkiln.tables import FILE_TYPES, find_file_type

CHUNK_BYTES = 1 << 20
_JUNK = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})


@dataclass(frozen=True)
class Member:
    """One file of an archive to be: its name inside, where it lies, its size.

    Attributes:
        is_folder: an empty folder; it goes in so that a class without images is not overlooked.
        is_executable: of code, where it matters; data sets are packed without.
    """

    name: str
    path: Path
    size_bytes: int
    is_folder: bool = False
    is_executable: bool = False


@dataclass(frozen=True)
class Package:
    """What will be sent as a data set: a folder to be packed, or an archive or table as it is.

    Attributes:
        members: files of a folder, sorted by name; None for an archive or a table.
        size_bytes: of what is sent.
    """

    path: Path
    media_type: str
    size_bytes: int
    members: tuple[Member, ...] | None = None

    def chunks(self) -> Iterator[bytes]:
        """The archive's bytes.

        Raises:
            PackingError: a file changed or vanished since the folder was read.
        """
        if self.members is None:
            return _read(self.path, self.size_bytes)
        return _tar(self.members)

    def digest(self, on_bytes: Callable[[int], None] | None = None) -> str:
        """sha256 of the archive, by reading all of it once.

        Args:
            on_bytes: told the number of bytes since the last call.
        """
        sha256 = hashlib.sha256()
        for chunk in self.chunks():
            sha256.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
        return sha256.hexdigest()


def open_package(path: Path) -> Package:
    """Look at a file or folder that shall become a data set.

    Raises:
        PackingError: it is not there, empty, or neither a folder, a zip or tar, nor a table.
    """
    if path.is_dir():
        return _folder_package(path)
    if not path.is_file():
        raise PackingError(f"{path} is neither a file nor a folder")
    size_bytes = path.stat().st_size
    table_type = find_file_type(path.name)
    if table_type is not None and size_bytes:
        return Package(path=path, media_type=table_type, size_bytes=size_bytes)
    with path.open("rb") as file:
        starts_as_zip = file.read(2) == b"PK"  # a tar that ends with a zip would pass for one
    if starts_as_zip and zipfile.is_zipfile(path):
        return Package(path=path, media_type="application/zip", size_bytes=size_bytes)
    if size_bytes and tarfile.is_tarfile(path):
        return Package(path=path, media_type="application/x-tar", size_bytes=size_bytes)
    endings = ", ".join(FILE_TYPES)
    raise PackingError(
        f"{path} is neither a zip nor a tar archive, nor does it end like a table ({endings}, any "
        "with .gz); give a folder or one of these"
    )


def pack_members(path: Path, members: Iterable[Member]) -> Package:
    """The tar of some files of a folder, whatever order they are named in."""
    ordered = tuple(sorted(members, key=lambda member: member.name))
    content = sum(len(_header(member)) + _padded(member.size_bytes) for member in ordered)
    size_bytes = content + _end_bytes(content)
    return Package(
        path=path, media_type="application/x-tar", size_bytes=size_bytes, members=ordered
    )


def _folder_package(path: Path) -> Package:
    members = list(_walk(path, "", ()))
    if all(member.is_folder for member in members):
        raise PackingError(f"{path} holds no files")
    return pack_members(path, members)


def _walk(folder: Path, prefix: str, above: tuple[str, ...]) -> Iterator[Member]:
    real = os.path.realpath(folder)
    if real in above:
        raise PackingError(f"{folder} links to a folder that it lies in")
    try:
        with os.scandir(folder) as listing:
            entries = [entry for entry in listing if not _is_junk(entry.name)]
        if not entries:
            yield Member(name=prefix, path=folder, size_bytes=0, is_folder=True)
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if entry.is_dir():
                yield from _walk(Path(entry.path), f"{name}/", (*above, real))
            elif entry.is_file():
                yield Member(name=name, path=Path(entry.path), size_bytes=entry.stat().st_size)
            else:
                raise PackingError(f"{entry.path} is a broken link or not a plain file")
    except OSError as error:
        raise PackingError(f"{error.filename} cannot be read: {error.strerror}") from error


def _is_junk(name: str) -> bool:
    return name.startswith(".") or name in _JUNK


def _tar(members: tuple[Member, ...]) -> Iterator[bytes]:
    sent = 0
    for member in members:
        header = _header(member)
        yield header
        if not member.is_folder:
            yield from _read(member.path, member.size_bytes)
        padding = _padded(member.size_bytes) - member.size_bytes
        if padding:
            yield bytes(padding)
        sent += len(header) + _padded(member.size_bytes)
    yield bytes(_end_bytes(sent))


def _header(member: Member) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.size = member.size_bytes
    info.mode = 0o755 if member.is_folder or member.is_executable else 0o644
    info.type = tarfile.DIRTYPE if member.is_folder else tarfile.REGTYPE
    try:
        return info.tobuf(format=tarfile.PAX_FORMAT, encoding="utf-8", errors="strict")
    except UnicodeEncodeError:
        raise PackingError(f"the name of {member.path!r} is not valid text; rename it") from None


def _read(path: Path, size_bytes: int) -> Iterator[bytes]:
    left = size_bytes
    try:
        with path.open("rb") as file:
            while left:
                chunk = file.read(min(left, CHUNK_BYTES))
                if not chunk:
                    break
                left -= len(chunk)
                yield chunk
            changed = left > 0 or file.read(1) != b""
    except OSError as error:
        raise PackingError(f"{path} cannot be read: {error.strerror}") from error
    if changed:
        raise PackingError(f"{path} changed while it was read; try again when it is complete")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _end_bytes(content_bytes: int) -> int:
    """Two empty blocks and what fills the last record."""
    end = 2 * tarfile.BLOCKSIZE
    return end + -(content_bytes + end) % tarfile.RECORDSIZE
