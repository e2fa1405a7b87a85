"""Lists and reads a folder that is registered in place, never following a link."""

import os
import stat

from service.datasets import beneath
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import Limits, say_too_large
from service.datasets.inspect.listing import Entry, Listing, Parts, is_ignored
from service.datasets.inspect.report import refuse


def list_folder(root_fd: int, *, limits: Limits) -> Listing:
    """Return the files below a folder.

    Raises:
        Refused: The folder contains links or special files, or too many files.
    """
    listing = Listing(limits)
    pending: list[Parts] = [()]
    while pending:
        folder = pending.pop()
        try:
            fd = beneath.open_folder(root_fd, folder)
        except OSError as error:
            raise refuse("unreadable", f"cannot be read: {error.strerror}", "/".join(folder)) from (
                error
            )
        try:
            pending.extend(_list_one(fd, folder, listing))
        finally:
            os.close(fd)
    listing.close()
    return listing


class FolderReader:
    """Reads files of a folder, keeping the last file's folder open.

    Args:
        root_fd: Descriptor of the data set's folder.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._folder: Parts | None = None
        self._folder_fd = -1

    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return the content of a listed file.

        Raises:
            BadImage: The file cannot be read, is too large, or is no longer a regular file.
        """
        try:
            fd = beneath.open_file(self._open_folder(entry.parts[:-1]), entry.parts[-1])
            with os.fdopen(fd, "rb", buffering=0) as file:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise BadImage("special_file", "is no longer a regular file")
                if status.st_size > limits.max_file_bytes:
                    raise BadImage("too_large", say_too_large(limits.max_file_bytes))
                return file.read(status.st_size)
        except OSError as error:
            raise BadImage("unreadable", f"cannot be read: {error.strerror}") from None

    def close(self) -> None:
        """Close the folder of the last file."""
        if self._folder is not None:
            os.close(self._folder_fd)
            self._folder = None

    def _open_folder(self, folder: Parts) -> int:
        if folder != self._folder:
            fd = beneath.open_folder(self._root_fd, folder)
            self.close()
            self._folder, self._folder_fd = folder, fd
        return self._folder_fd


def _list_one(fd: int, folder: Parts, listing: Listing) -> list[Parts]:
    """Add one folder's files to the listing; return its subfolders."""
    subfolders: list[Parts] = []
    with os.scandir(fd) as items:
        for item in items:
            path = "/".join((*folder, item.name))
            if is_ignored((*folder, item.name)):
                listing.ignored.append(path)
                continue
            parts = listing.parse(path)
            if item.is_symlink():
                message = "is a symbolic link; replace it with the file itself"
                listing.note("symlink", message, path)
            elif item.is_dir(follow_symlinks=False):
                if parts is not None:
                    listing.add_folder(parts)
                    subfolders.append(parts)
            elif not item.is_file(follow_symlinks=False):
                listing.note("special_file", "is a device, pipe or socket; remove it", path)
            elif parts is not None:
                size_bytes = item.stat(follow_symlinks=False).st_size
                listing.add_file(Entry(path=path, size_bytes=size_bytes))
    return subfolders
