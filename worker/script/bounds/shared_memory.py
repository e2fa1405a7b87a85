"""Files that a script creates in shared memory: counted as its own, and removed after it.

All programs of a host share `/dev/shm`, and a file there does not show who created it. It counts as
the script's if it did not exist before and one of the script's processes has it open for writing
at a look. A file that is created and closed between two looks is not recognised.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from worker.script.bounds.usage import BLOCK_BYTES
from worker.script.results.files import PROC_DIR, list_written

SHARED_DIR = Path("/dev/shm")  # noqa: S108  # only read; nothing is written there

Identity = tuple[int, int]
"""Device and inode of a file."""


class SharedFiles:
    """Looks repeatedly for files that a script's processes have open in a folder.

    Args:
        folder: Folder to look at; files that exist in it now do not belong to the script.
    """

    def __init__(self, folder: Path = SHARED_DIR, *, proc_dir: Path = PROC_DIR) -> None:
        self._folder = folder
        self._proc_dir = proc_dir
        self._others = {identity for _, identity, _ in self._scan()}
        self._own: set[Identity] = set()

    def look(self, pids: Iterable[int]) -> int:
        """Return the bytes that the script's files use, as long as they have a name.

        Args:
            pids: All processes of the script.
        """
        there = {identity: size_bytes for _, identity, size_bytes in self._scan()}
        new = there.keys() - self._others
        if new:
            self._own |= new.intersection(list_written(pids, proc_dir=self._proc_dir))
        return sum(there[identity] for identity in self._own & there.keys())

    def remove(self) -> int:
        """Remove the script's files; return how many there were."""
        left = [path for path, identity, _ in self._scan() if identity in self._own]
        for path in left:
            with suppress(PermissionError):  # another user's file that everyone may write
                path.unlink(missing_ok=True)
        return len(left)

    def _scan(self) -> Iterator[tuple[Path, Identity, int]]:
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    if entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        identity = status.st_dev, status.st_ino
                        yield Path(entry.path), identity, status.st_blocks * BLOCK_BYTES
