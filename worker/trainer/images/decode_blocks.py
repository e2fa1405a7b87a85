"""Decodes rows of a data set into the shared array: `... decode_blocks WORK.json NUMBER`.

Several processes do it at once, each taking a block of rows when it is done with its last; what
came of it lies in `outcome-NUMBER.json` then. It imports no torch, so it starts in a fraction of a
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

from redkiln.datasets import DatasetIndex
from worker.trainer.images.decode_sample import SampleProblem, decode_sample
from worker.trainer.images.decoded_facts import choose_facts_rows, count_levels, no_levels
from worker.trainer.images.pixels import PixelFormat
from worker.trainer.images.sources import open_source
from worker.trainer.lifetime import die_with_parent

BLOCK_ROWS = 100
SYSTEM_ERROR = 100
"""Exit status, plus the error's number, of a helper that the system denied something: a full disk
may leave no room to write it down."""


class Work(BaseModel):
    """What is decoded by all together.

    Attributes:
        folder: where the processes leave word to each other.
        images_path: of the array (N, C, S, S), its rows in the order train, test.
        offset: of row 0 in that file.
    """

    folder: str
    source_path: str
    index_path: str
    images_path: str
    offset: int
    pixel_format: PixelFormat


class Outcome(BaseModel):
    """What came of one process's share.

    Attributes:
        problem: of the first sample that it could not use.
        row: that sample's.
        levels: (C, 256), how often each grey level occurs in those of its rows that mean and spread
            are computed of.
    """

    problem: SampleProblem | None = None
    row: int = 0
    levels: list[list[int]]


class BlockQueue:
    """Blocks of rows that several processes share out among themselves, each block once.

    How many were taken is a number in a locked file; how many are done is another file's size.

    Attributes:
        has_locks: whether the file system knows locks; without them one process works alone.
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
        """Rows that nobody has taken yet; none when there are none left."""
        with self._locked():
            start = min(int.from_bytes(os.pread(self._taken, 8, 0), "little"), self._num_rows)
            rows = range(start, min(start + BLOCK_ROWS, self._num_rows))
            os.pwrite(self._taken, rows.stop.to_bytes(8, "little"), 0)
        return rows

    def take_all(self) -> None:
        """Leave nothing for anybody."""
        with self._locked():
            os.pwrite(self._taken, self._num_rows.to_bytes(8, "little"), 0)

    def mark_done(self) -> None:
        """One more block is."""
        os.write(self._done, b".")

    def num_done(self) -> int:
        """Rows of the blocks that are done, by whomever."""
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
    work: Work, index: DatasetIndex, queue: BlockQueue, *, on_row: Callable[[], None]
) -> Outcome:
    """Decode blocks of rows into the array until none are left.

    At a sample that cannot be used it ends, and so do the others after their blocks.

    Raises:
        OSError: the disk is full, say.
    """
    samples = index.splits["train"] + index.splits["test"]
    pixel_format = work.pixel_format
    num_train = len(index.splits["train"])
    counted = set(choose_facts_rows(num_train, num_bytes=pixel_format.num_bytes))
    levels = no_levels(pixel_format)
    # Written block by block: pages of a mapped file would count as this process's memory.
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
    """Help with the work that a file describes.

    Returns:
        The exit status: 0, or what the system denied; anything else is a fault of the code.
    """
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    try:
        _help(Work.model_validate_json(path.read_bytes()), number)
    except OSError as error:
        return SYSTEM_ERROR + (error.errno or errno.EIO)
    return 0


def _help(work: Work, number: int) -> None:
    index = DatasetIndex.model_validate_json(Path(work.index_path).read_bytes())
    num_rows = len(index.splits["train"]) + len(index.splits["test"])
    with BlockQueue(Path(work.folder), num_rows) as queue:
        outcome = decode_blocks(work, index, queue, on_row=lambda: None)
    outcome_path(work, number).write_text(outcome.model_dump_json())


def outcome_path(work: Work, number: int) -> Path:
    """Where a helper leaves its outcome."""
    return Path(work.folder) / f"outcome-{number}.json"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
