"""Decodes rows of a data set into a shared array: `... decode_blocks WORK.json NUMBER`.

Several processes run it at once; each takes a block of rows when it has finished its last one and
writes its result to `outcome-NUMBER.json`. It imports no torch, so it starts in a fraction of a
second.
"""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel

from redkiln.annotations import parse_image_index
from redkiln.datasets import ImageIndex
from redkiln.predict.pixels import PixelFormat
from worker.process.lifetime import die_with_parent
from worker.trainer.images.decode.facts import choose_facts_rows, count_levels, no_levels
from worker.trainer.images.decode.sample import SampleProblem, decode_sample
from worker.trainer.images.sources.sources import open_source

BLOCK_ROWS = 100
SYSTEM_ERROR = 100
"""Exit status for an OSError in a helper, plus its errno: a full disk may leave no room to write
the error to a file."""


class DecodeOrder(BaseModel):
    """The work that all processes share.

    Attributes:
        folder: Folder for messages between the processes.
        images_path: File of the array (N, C, S, S) uint8, its rows in the order train, test.
        offset: Position of row 0 in that file, in bytes.
    """

    folder: str
    source_path: str
    index_path: str
    images_path: str
    offset: int
    pixel_format: PixelFormat


class Outcome(BaseModel):
    """The result of one process's share of the rows.

    Attributes:
        problem: The first sample that it could not use.
        row: Row of that sample.
        levels: (C, 256), how often each grey level occurs in its rows that count towards mean and
            standard deviation.
    """

    problem: SampleProblem | None = None
    row: int = 0
    levels: list[list[int]]


class BlockQueue:
    """Blocks of rows that several processes divide among themselves.

    A locked file holds the number of rows taken; the size of another file is the number of blocks
    done.

    Attributes:
        has_locks: Whether the file system supports locks; without them one process works alone.
    """

    def __init__(self, folder: Path, num_rows: int) -> None:
        self._num_rows = num_rows
        self._taken = os.open(folder / "taken", os.O_RDWR | os.O_CREAT, 0o600)
        self._done = os.open(folder / "done", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.has_locks = self._try_lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._taken)
        os.close(self._done)

    def take(self) -> range:
        """Return rows that no process has taken yet, or an empty range if none are left."""
        with self._locked():
            start = min(int.from_bytes(os.pread(self._taken, 8, 0), "little"), self._num_rows)
            rows = range(start, min(start + BLOCK_ROWS, self._num_rows))
            os.pwrite(self._taken, rows.stop.to_bytes(8, "little"), 0)
        return rows

    def take_all(self) -> None:
        """Take all remaining rows, so that every process stops after its block."""
        with self._locked():
            os.pwrite(self._taken, self._num_rows.to_bytes(8, "little"), 0)

    def mark_done(self) -> None:
        """Count one more block as done."""
        os.write(self._done, b".")

    def num_done(self) -> int:
        """Return the number of rows in finished blocks, by any process."""
        return min(os.fstat(self._done).st_size * BLOCK_ROWS, self._num_rows)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._taken, fcntl.LOCK_EX)
            fcntl.flock(self._taken, fcntl.LOCK_UN)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.has_locks:
            yield
            return
        # The kernel releases the lock of a process that dies.
        fcntl.flock(self._taken, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._taken, fcntl.LOCK_UN)


def decode_blocks(
    work: DecodeOrder, index: ImageIndex, queue: BlockQueue, *, on_row: Callable[[], None]
) -> Outcome:
    """Decode blocks of rows into the array until none are left.

    A sample that cannot be used ends the work; other processes stop after their blocks.

    Raises:
        OSError: the disk is full, for example.
    """
    samples = [*index.splits["train"], *index.splits["test"]]
    pixel_format = work.pixel_format
    num_train = len(index.splits["train"])
    counted = set(choose_facts_rows(num_train, num_bytes=pixel_format.num_bytes))
    levels = no_levels(pixel_format)
    # Write block by block: pages of a mapped file would count as this process's memory.
    block = np.empty((BLOCK_ROWS, *pixel_format.shape), dtype=np.uint8)
    try:
        source = open_source(Path(work.source_path))
    except (OSError, ValueError) as error:
        queue.take_all()
        name = Path(work.source_path).name
        gone = SampleProblem(path=name, reason=str(error), is_gone=True)
        return Outcome(problem=gone, levels=levels.tolist())
    with contextlib.closing(source), Path(work.images_path).open("r+b") as file:
        while rows := queue.take():
            for planes, row in zip(block, rows, strict=False):
                problem = decode_sample(samples[row], source, planes, pixel_format)
                if problem is not None:
                    queue.take_all()
                    return Outcome(problem=problem, row=row, levels=levels.tolist())
                on_row()
            file.seek(work.offset + rows.start * pixel_format.num_bytes)
            file.write(block[: len(rows)].data)
            file.flush()
            levels += count_levels(block, [row - rows.start for row in rows if row in counted])
            queue.mark_done()
    return Outcome(levels=levels.tolist())


def main(path: Path, number: int) -> int:
    """Decode a share of the work that a file describes.

    Returns:
        The exit status: 0, or SYSTEM_ERROR plus an errno. Any other status is a bug.
    """
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    try:
        _help(DecodeOrder.model_validate_json(path.read_bytes()), number)
    except OSError as error:
        return SYSTEM_ERROR + (error.errno or errno.EIO)
    return 0


def _help(work: DecodeOrder, number: int) -> None:
    index = parse_image_index(Path(work.index_path).read_bytes())
    num_rows = len(index.splits["train"]) + len(index.splits["test"])
    with BlockQueue(Path(work.folder), num_rows) as queue:
        outcome = decode_blocks(work, index, queue, on_row=lambda: None)
    outcome_path(work, number).write_text(outcome.model_dump_json())


def outcome_path(work: DecodeOrder, number: int) -> Path:
    """Return where a helper writes its outcome."""
    return Path(work.folder) / f"outcome-{number}.json"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
