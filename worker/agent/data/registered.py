"""Opens a folder that was registered in place, and only that folder.

Its path is walked from the allowed root by descriptors, so a link that somebody puts in its place
leads nowhere. What is then read is read below the descriptor.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from redkiln.protocol import DatasetRef
from worker.agent.data.folders import identify
from worker.beneath import open_folder_beneath
from worker.jobdir import LocalDataset

_LINK = (errno.ELOOP, errno.ENOTDIR)
"""With O_DIRECTORY and O_NOFOLLOW, a link gives ENOTDIR, too."""


class NotInPlace(Exception):  # noqa: N818  # the name states the fact
    """The folder cannot be used in place; the text says why."""


@contextmanager
def open_registered(ref: DatasetRef) -> Iterator[Path]:
    """Yield a path of the folder that leads to the same folder until the block ends.

    Raises:
        NotInPlace: It is not on this host, not below an allowed folder, or behind a link.
    """
    if ref.path is None or ref.root is None:
        raise NotInPlace(f"{ref.path} is not below a folder of REDKILN_DATA_ROOTS")
    try:
        below = PurePosixPath(ref.path).relative_to(ref.root)
        folder = open_folder_beneath(Path(ref.root), str(below))
    except FileNotFoundError:
        raise NotInPlace(f"{ref.path} does not exist on this worker") from None
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = "it is not a folder, or its path contains a link" if number in _LINK else str(error)
        raise NotInPlace(f"{ref.path} cannot be opened: {why}") from None
    try:
        yield Path(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)


def describe_registered(ref: DatasetRef, folder: Path, *, fingerprint: str) -> LocalDataset:
    """Describe an opened folder for the job's processes, which check that it is the same one."""
    return LocalDataset(
        name=ref.name,
        kind="folder",
        path=ref.path,
        root=ref.root,
        identity=identify(folder),
        fingerprint=fingerprint,
    )
