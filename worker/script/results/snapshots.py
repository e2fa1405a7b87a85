"""A script's checkpoints: its folder as one tar, kept for the next attempt and restored before it.

A snapshot is taken when something in the folder has become complete and nothing is half written.
It is an uncompressed tar, because weights do not shrink; its manifest lists links within the
folder. It is stored with the trainer's checkpoints and uploaded in the same way.
"""

import errno
import hashlib
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from redkiln.events import EventKind
from redkiln.protocol import check_artifact_name
from worker.beneath import open_beneath
from worker.process.event_log import EventLog
from worker.script.heartbeat import Heartbeat
from worker.script.results.files import Folder, State
from worker.script.results.results import MAX_TOLD
from worker.unpack import unpack

FORMAT = "folder"
CHUNK_BYTES = 1 << 20
LEAST_SECONDS = 2.0
RESTLESS_SECONDS = 4.0
"""A folder that changes at every look is still saved after this time."""


@dataclass
class Snapshots:
    """Takes snapshots of a folder.

    Args:
        folder: The script's checkpoint folder.
        target_dir: Folder of the job's checkpoints.
        event_log: Announces each snapshot.
    """

    folder: Path
    target_dir: Path
    event_log: EventLog
    clock: Callable[[], float] = time.monotonic
    _number: int = 0
    _not_before: float = 0.0
    _changed_at: float | None = None
    _num_told: int = 0
    _last: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files = Folder(self.folder)
        self._taken: dict[str, State] = {}

    def begin(self, *, after: str | None) -> None:
        """Treat the folder's present content as saved; number the next snapshot after `after`."""
        self._taken = self._list()
        if after is not None:
            self._number = int(Path(after).stem.removeprefix("step-"))

    @property
    def number(self) -> int:
        """Number of the newest snapshot, at least the last step before it; 0 without one."""
        return self._number

    @property
    def size_bytes(self) -> int:
        """Size of the folder at the last look."""
        return self._files.size_bytes

    def look(self, pids: Iterable[int], *, step: int, is_over: bool = False) -> None:
        """Take a snapshot if the folder has new content and all of it is complete.

        Args:
            pids: Processes that may write.
            step: Step that the script has reported.
            is_over: Whether nothing writes any more.
        """
        self._files.look(pids, is_over=is_over)
        now = self._list()
        self._warn_of_left_out()
        if not now or now == self._taken:
            self._last, self._changed_at = now, None
            return
        if self._changed_at is None:
            self._changed_at = self.clock()
        is_quiet, self._last = now == self._last, now
        if not is_over and not self._is_due(now, is_quiet=is_quiet):
            return
        began = self.clock()
        held = set() if is_over else {name for name in now if self._files.is_held(name)}
        if self._take(step, now, left_out=held):
            self._taken, self._changed_at = now, None
        # A large folder is saved less often: packing takes at most a tenth of the time.
        ended = self.clock()
        self._not_before = ended + max(LEAST_SECONDS, 10 * (ended - began))

    def _is_due(self, now: dict[str, State], *, is_quiet: bool) -> bool:
        """Return whether nothing is half written; a checkpoint may consist of many files."""
        assert self._changed_at is not None
        if not is_quiet and self.clock() - self._changed_at < RESTLESS_SECONDS:
            return False
        is_whole = all(self._files.is_whole(name) or self._files.is_held(name) for name in now)
        return is_whole and self.clock() >= self._not_before

    def _warn_of_left_out(self) -> None:
        refused = list(self._files.refused.items())[self._num_told : MAX_TOLD]
        if not refused:
            return
        self._num_told += len(refused)
        links = dict(_inner_links(self.folder))  # they are kept in the manifest
        for name, why in refused:
            if name not in links:
                text = f"{name!r} is not saved in checkpoints and is lost at a restart: {why}"
                self.event_log.warning("file_left_out", text)

    def _list(self) -> dict[str, State]:
        return dict(self._files.scan())

    def _take(self, step: int, content: dict[str, State], *, left_out: Set[str]) -> bool:
        """Save a snapshot; return False if the folder changed while it was packed."""
        # The number defines the order: a script may report no steps, or start them again.
        number = max(self._number + 1, step)
        name = f"step-{number:012d}.tar"
        target = self.target_dir / name
        partial = target.with_suffix(".tmp")
        try:
            with partial.open("wb") as file:
                beat = Heartbeat(self.event_log.message, "saving the script's checkpoints").beat
                hashed = _Hashed(file, beat)
                links = pack(
                    self.folder, [name for name in content if name not in left_out], hashed
                )
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            partial.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False  # a file was removed or truncated while it was packed
        if self._has_changed(content, left_out):
            partial.unlink()
            return False
        self._number = number
        manifest = {
            "format": FORMAT,
            "name": name,
            "step": number,
            "sha256": hashed.sha256.hexdigest(),
            "size_bytes": partial.stat().st_size,
            "metrics": {},
            "links": links,
        }
        target.with_suffix(".json").write_text(json.dumps(manifest))
        partial.replace(target)
        self._forget_older()
        self.event_log.flush_points()
        self.event_log.write(
            EventKind.CHECKPOINT, step=number, epoch=0, file=name, is_best=False, metrics={}
        )
        return True

    def _has_changed(self, content: dict[str, State], left_out: Set[str]) -> bool:
        now = self._list()
        return any(
            now.get(name) != state for name, state in content.items() if name not in left_out
        )

    def _forget_older(self) -> None:
        """Keep the two latest snapshots: the newest, and one that may be uploading."""
        for path in sorted(self.target_dir.glob("step-*.tar"))[:-2]:
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def pack(folder: Path, names: Iterable[str], target: "_Hashed") -> dict[str, str]:
    """Write the files and the empty folders of a folder as a tar.

    Returns:
        The links within the folder and their targets, because a tar of regular files has no links.

    Raises:
        OSError: A file was removed, truncated or replaced by a link meanwhile.
    """
    with tarfile.open(fileobj=target, mode="w|", bufsize=CHUNK_BYTES) as packed:  # type: ignore[call-overload]
        for name in sorted(names):
            with open_beneath(folder, name) as file:
                status = os.fstat(file.fileno())
                info = tarfile.TarInfo(name)
                info.size, info.mtime = status.st_size, int(status.st_mtime)
                info.mode = 0o755 if status.st_mode & 0o100 else 0o644
                packed.addfile(info, file)
        for name in _empty_folders(folder):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            packed.addfile(info)
    return dict(_inner_links(folder))


def restore(snapshot: Path, folder: Path, *, beat: Callable[[], None] = lambda: None) -> int:
    """Restore a snapshot's files; return their number.

    Args:
        snapshot: Path of the tar; its manifest is next to it.
        folder: Folder to restore to.
        beat: Called repeatedly meanwhile.

    Raises:
        TrainingFailed: The snapshot is damaged.
    """
    num_files = unpack(snapshot, folder, what="checkpoint", beat=beat)
    manifest = json.loads(snapshot.with_suffix(".json").read_bytes())
    for name, target in manifest.get("links", {}).items():
        link = folder / check_artifact_name(name)
        if is_inner(name, target) and not link.is_symlink() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
    return num_files


def is_inner(name: str, target: str) -> bool:
    """Return whether a link at `name` points to a path within its folder."""
    if target.startswith("/"):
        return False
    place = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120
    return place != ".." and not place.startswith("../")


def _inner_links(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield links that point within the folder; the newest checkpoint often has a second name."""
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(root, name)
            relative = path.relative_to(folder).as_posix()
            if path.is_symlink():
                with suppress(OSError, ValueError):  # removed meanwhile, or an invalid name
                    target = os.readlink(path)  # noqa: PTH115
                    if is_inner(check_artifact_name(relative), target):
                        yield relative, target


def _empty_folders(folder: Path) -> Iterator[str]:
    """Yield folders that contain nothing to save."""
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        is_empty = not folders and all(name.startswith(".") for name in names)
        if is_empty and Path(root) != folder:
            with suppress(ValueError):  # an invalid name
                yield check_artifact_name(Path(root).relative_to(folder).as_posix())


class _Hashed:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO, beat: Callable[[], None]) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file
        self._beat = beat

    def write(self, data: bytes) -> int:
        self._beat()
        self.sha256.update(data)
        return self._file.write(data)
