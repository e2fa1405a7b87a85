"""Files of shared memory that a script makes: counted as its own, and removed behind it.

All that runs on a host shares `/dev/shm`, and a file there does not tell who made it. Known as a
script's own is what one of its processes has open for writing at a look, and what was not there
before. A file that is made and closed between two looks stays.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from worker.script.files import PROC_DIR, list_written
from worker.script.usage import BLOCK_BYTES

SHARED_DIR = Path("/dev/shm")  # noqa: S108  it is looked at, and nothing is written there

Identity = tuple[int, int]
"""Of a file: its device and inode."""


class SharedFiles:
    """Looks again and again at what the processes of a script have open in a folder.

    Args:
        folder: what lies there now is nobody's of the script.
    """

    def __init__(self, folder: Path = SHARED_DIR, *, proc_dir: Path = PROC_DIR) -> None:
        self._folder = folder
        self._proc_dir = proc_dir
        self._others = {identity for _, identity, _ in self._scan()}
        self._own: set[Identity] = set()

    def look(self, pids: Iterable[int]) -> int:
        """Bytes that the script's files take, as far as they still have a name.

        Args:
            pids: of all its processes.
        """
        there = {identity: size_bytes for _, identity, size_bytes in self._scan()}
        new = there.keys() - self._others
        if new:
            self._own |= new.intersection(list_written(pids, proc_dir=self._proc_dir))
        return sum(there[identity] for identity in self._own & there.keys())

    def remove(self) -> int:
        """Remove the script's files; how many there were."""
        left = [path for path, identity, _ in self._scan() if identity in self._own]
        for path in left:
            with suppress(PermissionError):  # of another user, who lets everybody write there
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
