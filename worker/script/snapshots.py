"""A script's checkpoints: its folder as one tar, kept for the next attempt and put back before it.

The folder is taken when something in it has become whole and nothing is half written. A snapshot
is a tar without compression, as weights do not shrink; it is written beside the trainer's
checkpoints and handed in in the same way.
"""

import hashlib
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from redkiln.events import EventKind
from worker.script.files import Folder, State
from worker.script.unpack import unpack
from worker.trainer.report import Report

FORMAT = "folder"
CHUNK_BYTES = 1 << 20
LEAST_SECONDS = 2.0


@dataclass
class Snapshots:
    """Takes snapshots of a folder.

    Args:
        folder: what the script keeps there.
        target_dir: the job's checkpoints.
        report: where they are announced.
    """

    folder: Path
    target_dir: Path
    report: Report
    clock: Callable[[], float] = time.monotonic
    _number: int = 0
    _not_before: float = 0.0

    def __post_init__(self) -> None:
        self._files = Folder(self.folder)
        self._taken: dict[str, State] = {}

    def begin(self, *, after: str | None) -> None:
        """What is in the folder now is known; the next snapshot follows the one of this name."""
        self._taken = self._list()
        if after is not None:
            self._number = int(Path(after).stem.removeprefix("step-"))

    @property
    def size_bytes(self) -> int:
        """Of the folder at the last look."""
        return self._files.size_bytes

    def look(self, pids: Iterable[int], *, step: int, is_over: bool = False) -> None:
        """Take a snapshot if there is something new in the folder, and all of it is whole.

        Args:
            pids: of those who may write.
            step: that the script says it is at.
            is_over: nobody writes any more.
        """
        self._files.look(pids, is_over=is_over)
        now = self._list()
        if not now or now == self._taken:
            return
        if not is_over and not self._is_due(now):
            return
        began = self.clock()
        if self._take(step, now):
            self._taken = now
        # A large folder is packed less often: at most a tenth of the time goes into it.
        ended = self.clock()
        self._not_before = ended + max(LEAST_SECONDS, 10 * (ended - began))

    def _is_due(self, now: dict[str, State]) -> bool:
        is_whole = all(self._files.is_whole(name) for name in now)
        return is_whole and self.clock() >= self._not_before

    def _list(self) -> dict[str, State]:
        return dict(self._files.scan())

    def _take(self, step: int, content: dict[str, State]) -> bool:
        """Whether the folder stayed as it was while it was packed."""
        # A number tells the order; a script need not say its steps, and may begin them anew.
        self._number = max(self._number + 1, step)
        name = f"step-{self._number:012d}.tar"
        target = self.target_dir / name
        partial = target.with_suffix(".tmp")
        with partial.open("wb") as file:
            hashed = _Hashed(file)
            with tarfile.open(fileobj=hashed, mode="w|", bufsize=CHUNK_BYTES) as packed:  # type: ignore[call-overload]
                for path in sorted(self.folder.rglob("*")):
                    if path.is_dir() or (path.is_file() and not path.is_symlink()):
                        packed.add(path, path.relative_to(self.folder).as_posix(), recursive=False)
            file.flush()
            os.fsync(file.fileno())
        if self._list() != content:
            partial.unlink()
            return False
        manifest = {
            "format": FORMAT,
            "name": name,
            "step": self._number,
            "sha256": hashed.sha256.hexdigest(),
            "size_bytes": partial.stat().st_size,
            "metrics": {},
        }
        target.with_suffix(".json").write_text(json.dumps(manifest))
        partial.replace(target)
        self._forget_older()
        self.report.flush_points()
        self.report.write(
            EventKind.CHECKPOINT, step=self._number, epoch=0, file=name, is_best=False, metrics={}
        )
        return True

    def _forget_older(self) -> None:
        """Two are kept on the worker: the newest, and the one that may be on its way up."""
        for path in sorted(self.target_dir.glob("step-*.tar"))[:-2]:
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def restore(snapshot: Path, folder: Path) -> int:
    """Put a snapshot's files back; how many.

    Raises:
        TrainingFailed: it is damaged.
    """
    return unpack(snapshot, folder, what="checkpoint")


class _Hashed:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)
