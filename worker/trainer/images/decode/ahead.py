"""Decodes images during training, one process per core, for sets too large for the disk."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.predict.pixels import PixelFormat
from worker.trainer.images.decode.child import BLOCK_ROWS, Assignment, Request, map_block
from worker.trainer.images.decode.sample import SampleProblem


class DecodingRows:
    """Rows that are decoded when they are read (a `worker.trainer.images.rows.pixel_rows.Rows`).

    Several threads may read; they alternate after every 256 rows. The children die with the thread
    that creates this object, so create it in the thread that lives longest.
    """

    def __init__(
        self, source_path: Path, index_path: Path, pixel_format: PixelFormat, *, processes: int
    ) -> None:
        self._shape = pixel_format.shape
        # A file in memory, so that all processes share one copy of its pages.
        self._descriptor = os.memfd_create("redkiln-decoding")
        os.ftruncate(self._descriptor, BLOCK_ROWS * pixel_format.num_bytes)
        self._block = map_block(self._descriptor, self._shape)
        self._turn = threading.Lock()
        assignment = Assignment(
            source_path=str(source_path),
            index_path=str(index_path),
            pixel_format=pixel_format,
        )
        self._children = [self._start(assignment) for _ in range(processes)]

    def read(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        """Decode the rows' planes into `out`, (B, C, S, S) uint8.

        Raises:
            TrainingFailed: an image is missing, has changed, or cannot be decoded.
            RuntimeError: a decoding process ended.
        """
        for start in range(0, len(rows), BLOCK_ROWS):
            some = rows[start : start + BLOCK_ROWS]
            with self._turn:
                self._read_block(some, out[start : start + len(some)])

    def close(self) -> None:
        """Stop the children."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _start(self, assignment: Assignment) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-m",
            "worker.trainer.images.decode.child",
            str(self._descriptor),
        ]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "REDKILN_PARENT_PID": str(os.getpid())},
            cwd=Path(__file__).parents[4],
            pass_fds=[self._descriptor],
            # A SIGTERM to the trainer's group requests a checkpoint, which still needs batches.
            process_group=0,
        )
        _write(child, assignment)
        return child

    def _read_block(self, rows: Sequence[int], out: NDArray[np.uint8]) -> None:
        count = len(self._children)
        bounds = [len(rows) * part // count for part in range(count + 1)]
        for number, child in enumerate(self._children):
            share = list(rows[bounds[number] : bounds[number + 1]])
            _write(child, Request(place=bounds[number], rows=share))
        answers = [_read_answer(child) for child in self._children]
        for problem in answers:
            if problem is not None:
                raise problem.to_error()
        out[:] = self._block[: len(rows)]


def _write(child: "subprocess.Popen[bytes]", message: BaseModel) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(message.model_dump_json().encode() + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        raise _ended(child) from None


def _read_answer(child: "subprocess.Popen[bytes]") -> SampleProblem | None:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line.endswith(b"\n"):
        raise _ended(child)
    return SampleProblem.model_validate_json(line) if line.strip() else None


def _ended(child: "subprocess.Popen[bytes]") -> RuntimeError:
    return RuntimeError(f"a process that decodes images ended with status {child.wait()}")
