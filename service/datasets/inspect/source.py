"""One interface for zip archives, tars and folders: list the files, then read them."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from redkiln.datasets import stamp_folder
from service.datasets import beneath
from service.datasets.inspect.folder import FolderReader, list_folder
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.report import refuse
from service.datasets.inspect.tar_archive import (
    NOT_AN_ARCHIVE,
    OPENERS,
    list_tar,
    read_tar_entry,
    unpack_tar,
)
from service.datasets.inspect.zip_archive import list_zip, read_zip_entry

UNPACKED = "unpacked.tar"
"""Name of the unpacked tar in the work folder."""
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OTHERS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!": "RAR",
    b"\x1f\x9d": "compress",
    b"\x04\x22\x4d\x18": "lz4",
}


class Source(ABC):
    """A data set whose files can be listed, and read in any order by any process."""

    has_digest = True
    """Whether one digest covers the whole source, so that its files need no digests."""

    def stamp(self) -> str | None:
        """Return a digest of the files' names, sizes and times; None if `has_digest`."""
        return None

    @abstractmethod
    def list_files(self, *, limits: Limits) -> Listing:
        """List the files.

        Raises:
            Refused: A name, or the source as a whole, is not acceptable.
        """

    @abstractmethod
    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return a file's content.

        Raises:
            BadImage: The file cannot be read.
        """


class ZipSource(Source):
    """A zip archive."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def list_files(self, *, limits: Limits) -> Listing:
        """List the files; see `Source`."""
        return list_zip(self._file, limits=limits)

    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return a file's content; see `Source`."""
        return read_zip_entry(self._file.fileno(), entry, limits=limits)


class TarSource(Source):
    """A plain tar."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def list_files(self, *, limits: Limits) -> Listing:
        """List the files; see `Source`."""
        return list_tar(self._file, limits=limits)

    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return a file's content; see `Source`."""
        return read_tar_entry(self._file.fileno(), entry, limits=limits)


class FolderSource(Source):
    """A folder that is registered in place."""

    has_digest = False

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._reader = FolderReader(root_fd)

    def stamp(self) -> str | None:
        """Return the digest; see `Source`."""
        return stamp_folder(self._root_fd)

    def close(self) -> None:
        """Close the folder that reading has opened."""
        self._reader.close()

    def list_files(self, *, limits: Limits) -> Listing:
        """List the files; see `Source`."""
        return list_folder(self._root_fd, limits=limits)

    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return a file's content; see `Source`."""
        return self._reader.read(entry, limits=limits)


@contextmanager
def open_archive(path: Path, *, work_dir: Path, limits: Limits) -> Iterator[Source]:
    """Open an archive file, whatever its name.

    Args:
        path: The archive.
        work_dir: Folder in which a compressed tar is unpacked.
        limits: Limits of the inspection.

    Raises:
        Refused: The file is not an archive, or cannot be read.
    """
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        magic = os.pread(file.fileno(), 8, 0)
        if not magic:
            raise refuse("not_an_archive", "the upload is empty; send a zip or tar archive")
        if magic.startswith(_ZIP):
            yield ZipSource(file)
            return
        if magic.startswith(tuple(OPENERS)):
            target = work_dir / UNPACKED
            unpack_tar(file, target, limits=limits)
            file = stack.enter_context(target.open("rb"))
        for start, name in _OTHERS.items():
            if magic.startswith(start):
                raise refuse("not_an_archive", f"is a {name} archive, {NOT_AN_ARCHIVE}")
        yield TarSource(file)


@contextmanager
def open_folder(root: Path, below: Sequence[str]) -> Iterator[Source]:
    """Open a folder below a trusted root.

    Raises:
        Refused: The folder does not exist, or is behind a symbolic link.
    """
    with ExitStack() as stack:
        try:
            root_fd = beneath.open_root(root)
            stack.callback(os.close, root_fd)
            folder_fd = beneath.open_folder(root_fd, below)
            stack.callback(os.close, folder_fd)
        except OSError as error:
            message = f"the folder cannot be opened: {error.strerror}"
            raise refuse("unreadable", message) from error
        source = FolderSource(folder_fd)
        stack.callback(source.close)
        yield source
