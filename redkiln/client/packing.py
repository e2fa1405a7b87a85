"""Packs a folder as a deterministic tar: the same files give the same bytes and sha256.

The tar holds only names, contents and their order, without owners, times and modes. Links are
followed, because users see their targets in the folder. Hidden files and files of operating
systems are left out.
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
    """One file of an archive to be written: its name inside, its path, its size.

    Attributes:
        is_folder: Whether it is an empty folder, which is included so that a class without images
            is noticed.
        is_executable: Whether the file is executable; only set for code, not for data sets.
    """

    name: str
    path: Path
    size_bytes: int
    is_folder: bool = False
    is_executable: bool = False


@dataclass(frozen=True)
class Package:
    """What to send as a data set: a folder to pack, or an archive or table as it is.

    Attributes:
        members: Files of a folder, sorted by name; None for an archive or a table.
        size_bytes: Number of bytes to send.
    """

    path: Path
    media_type: str
    size_bytes: int
    members: tuple[Member, ...] | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive's bytes.

        Raises:
            PackingError: A file changed or vanished since the folder was read.
        """
        if self.members is None:
            return _read(self.path, self.size_bytes)
        return _tar(self.members)

    def digest(self, on_bytes: Callable[[int], None] | None = None) -> str:
        """Return the sha256 of the archive, reading all of it once.

        Args:
            on_bytes: Called with the number of bytes read since the last call.
        """
        sha256 = hashlib.sha256()
        for chunk in self.chunks():
            sha256.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
        return sha256.hexdigest()


def open_package(path: Path) -> Package:
    """Open a file or folder that is to become a data set.

    Raises:
        PackingError: It does not exist, is empty, or is not a folder, zip, tar or table.
    """
    if path.is_dir():
        return _folder_package(path)
    if not path.is_file():
        raise PackingError(f"there is no file or folder {path}")
    size_bytes = path.stat().st_size
    if not size_bytes:
        raise PackingError(f"the file {path} is empty")
    table_type = find_file_type(path.name)
    if table_type is not None:
        return Package(path=path, media_type=table_type, size_bytes=size_bytes)
    with path.open("rb") as file:
        starts_as_zip = file.read(2) == b"PK"  # a tar that ends with a zip would look like one
    if starts_as_zip and zipfile.is_zipfile(path):
        return Package(path=path, media_type="application/zip", size_bytes=size_bytes)
    if tarfile.is_tarfile(path):
        return Package(path=path, media_type="application/x-tar", size_bytes=size_bytes)
    endings = ", ".join(FILE_TYPES)
    raise PackingError(
        f"{path} is not a zip or tar archive, and its name does not end like a table ({endings}, "
        "each also with .gz). Give a folder or one of these."
    )


def open_file(path: Path) -> Package:
    """Open a file that is sent as it is.

    Raises:
        PackingError: It does not exist or is empty.
    """
    if not path.is_file():
        raise PackingError(f"there is no file {path}")
    if not path.stat().st_size:
        raise PackingError(f"the file {path} is empty")
    return Package(path, "application/octet-stream", path.stat().st_size)


def pack_members(path: Path, members: Iterable[Member]) -> Package:
    """Return a tar of some files of a folder, sorted by name."""
    ordered = tuple(sorted(members, key=lambda member: member.name))
    content = sum(len(_header(member)) + _padded(member.size_bytes) for member in ordered)
    size_bytes = content + _end_bytes(content)
    return Package(
        path=path, media_type="application/x-tar", size_bytes=size_bytes, members=ordered
    )


def _folder_package(path: Path) -> Package:
    members = list(_walk(path, "", ()))
    if all(member.is_folder for member in members):
        raise PackingError(f"{path} has no files")
    return pack_members(path, members)


def list_hidden(path: Path) -> list[str]:
    """Return the files of a folder that are left out because they are hidden, sorted."""
    found = []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if not _is_junk(name)]
        hidden = (Path(folder, name) for name in names if name.startswith("."))
        found += [file.relative_to(path).as_posix() for file in hidden]
    return sorted(found)


def _walk(folder: Path, prefix: str, above: tuple[str, ...]) -> Iterator[Member]:
    real = os.path.realpath(folder)
    if real in above:
        raise PackingError(f"{folder} links to a folder that contains it. Remove the link.")
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
                raise PackingError(f"{entry.path} is a broken link or not a regular file")
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
        raise PackingError(f"the name of {member.path!r} is not valid Unicode; rename it") from None


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
        raise PackingError(f"{path} changed while it was read. Try again once it is complete.")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _end_bytes(content_bytes: int) -> int:
    """Return the size of the two final empty blocks and the padding of the last record."""
    end = 2 * tarfile.BLOCKSIZE
    return end + -(content_bytes + end) % tarfile.RECORDSIZE
