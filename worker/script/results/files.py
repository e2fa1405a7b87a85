"""Which files of a folder are complete: no process has them open for writing.

A file that was renamed into place is complete at once; a file that is written in place is complete
when it is closed. A file that is written again becomes complete again.

Source: proc_pid_fd(5), proc_pid_fdinfo(5).
"""

import mimetypes
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from redkiln.protocol import ArtifactKind, check_artifact_name

PROC_DIR = Path("/proc")
PARTIAL = (".tmp", ".part", ".partial", ".incomplete", ".crdownload", "~", ".swp")
"""Suffixes that only unfinished files have."""
HELD_SECONDS = 120.0
MAX_FILES = 10_000
"""Most files of a script's results; a data set of loose files belongs in an archive."""
KINDS: dict[str, tuple[ArtifactKind, str]] = {
    ".onnx": ("model", "application/octet-stream"),
    ".safetensors": ("checkpoint", "application/octet-stream"),
    ".pt": ("checkpoint", "application/octet-stream"),
    ".pth": ("checkpoint", "application/octet-stream"),
    ".ckpt": ("checkpoint", "application/octet-stream"),
    ".png": ("figure", "image/png"),
    ".svg": ("figure", "image/svg+xml"),
    ".jpg": ("figure", "image/jpeg"),
    ".csv": ("metrics", "text/csv"),
    ".md": ("report", "text/markdown"),
    ".log": ("log", "text/plain; charset=utf-8"),
}
"""Kind and media type by suffix; every other file has the kind `file`."""


@dataclass(frozen=True)
class State:
    """The facts about a file that change when it is written."""

    size_bytes: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class Result:
    """A complete file below a folder.

    Attributes:
        name: Path below the folder, with `/`.
    """

    name: str
    state: State


class Folder:
    """Finds complete files in a folder that is looked at repeatedly.

    Args:
        folder: Folder to look at.
        again_seconds: Shortest time before a rewritten file is returned again.
        max_files: Most files with different names to return.
        clock: Monotonic seconds.

    Attributes:
        refused: Names that cannot be artifacts, with the reason; each once.
        num_too_many: Number of files beyond `max_files`.
        size_bytes: Size of all files at the last look, complete or not.
    """

    def __init__(
        self,
        folder: Path,
        *,
        again_seconds: float = 0.0,
        max_files: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refused: dict[str, str] = {}
        self.num_too_many = 0
        self.size_bytes = 0
        self._folder = folder
        self._seen: dict[str, State] = {}
        self._given: dict[str, State] = {}
        self._given_at: dict[str, float] = {}
        self._again_seconds = again_seconds
        self._max_files = max_files
        self._num_given = 0
        self._held: dict[str, tuple[int, float]] = {}
        self._clock = clock

    def look(self, pids: Iterable[int], *, is_over: bool = False) -> list[Result]:
        """Return files that have become complete, or complete again, since the last look.

        Args:
            pids: Processes that may write.
            is_over: Whether nothing writes any more, so that every file is complete.
        """
        found = dict(self.scan())
        self.size_bytes = sum(state.size_bytes for state in found.values())
        open_inodes = set() if is_over else {inode for _, inode in list_written(pids)}
        self._note_held(found, open_inodes)
        whole = [
            Result(name, state)
            for name, state in found.items()
            if self._given.get(name) != state
            and (is_over or (state.inode not in open_inodes and self._is_due(name)))
        ]
        self._seen = found
        for gone in self._given.keys() - found.keys():
            del self._given[gone], self._given_at[gone]
        taken = self._bound(whole)
        self._given |= {item.name: item.state for item in taken}
        self._given_at |= dict.fromkeys((item.name for item in taken), self._clock())
        return taken

    def _is_due(self, name: str) -> bool:
        if name.endswith(PARTIAL):
            return False
        given_at = self._given_at.get(name)
        return given_at is None or self._clock() - given_at >= self._again_seconds

    def _bound(self, whole: list[Result]) -> list[Result]:
        again = [item for item in whole if item.name in self._given]
        new = [item for item in whole if item.name not in self._given]
        if self._max_files is not None:
            room = max(0, self._max_files - self._num_given)
            self.num_too_many = max(self.num_too_many, len(new) - room)
            new = new[:room]
        self._num_given += len(new)
        return again + new

    def _note_held(self, found: Mapping[str, State], open_inodes: Set[int]) -> None:
        """Record since when each file has been open or has had the name of an unfinished file."""
        now = self._clock()
        self._held = {
            name: known
            if (known := self._held.get(name)) is not None and known[0] == state.inode
            else (state.inode, now)
            for name, state in found.items()
            if state.inode in open_inodes or name.endswith(PARTIAL)
        }

    def is_whole(self, name: str) -> bool:
        """Return whether a file is unchanged since it was returned."""
        return name in self._given and self._given[name] == self._seen.get(name)

    def is_held(self, name: str) -> bool:
        """Return whether a file has been open for so long that it is a log, not a result."""
        held = self._held.get(name)
        return held is not None and self._clock() - held[1] >= HELD_SECONDS

    def scan(self) -> Iterator[tuple[str, State]]:
        """Yield every file of the folder that can be an artifact, with its current state."""
        for folder, subfolders, names in os.walk(self._folder):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(names):
                path = Path(folder, name)
                relative = path.relative_to(self._folder).as_posix()
                if name.startswith(".") or relative in self.refused:
                    continue
                state = self._state(path, relative)
                if state is not None:
                    yield relative, state

    def _state(self, path: Path, relative: str) -> State | None:
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None  # it was removed meanwhile
        if not path.is_file() or path.is_symlink():
            self.refused[relative] = "it is a link or not a regular file"
            return None
        try:
            check_artifact_name(relative)
        except ValueError as error:
            self.refused[relative] = str(error)
            return None
        return State(status.st_size, status.st_mtime_ns, status.st_ino)


def kind_of(name: str) -> tuple[ArtifactKind, str]:
    """Return an artifact's kind and media type for its name."""
    known = KINDS.get(Path(name).suffix.lower())
    if known is not None:
        return known
    return "file", mimetypes.guess_type(name)[0] or "application/octet-stream"


def list_written(pids: Iterable[int], *, proc_dir: Path = PROC_DIR) -> Iterator[tuple[int, int]]:
    """Yield device and inode of each file that one of these processes has open for writing."""
    for pid in pids:
        try:
            with os.scandir(proc_dir / str(pid) / "fd") as descriptors:
                numbers = [entry.name for entry in descriptors]
        except OSError:
            continue  # the process has ended or belongs to another user
        for number in numbers:
            try:
                text = (proc_dir / str(pid) / "fdinfo" / number).read_text()
                flags = next(line for line in text.splitlines() if line.startswith("flags:"))
                if int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                    status = (proc_dir / str(pid) / "fd" / number).stat()
                    yield status.st_dev, status.st_ino
            except (OSError, StopIteration, ValueError):
                continue  # it was closed meanwhile
