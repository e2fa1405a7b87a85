"""A process that decodes images during training: `... decode_child DESCRIPTOR`.

It shares a block of memory with the trainer (as a descriptor, never by name) and reads an
`Assignment` and then `Request`s from stdin, one per line. It answers each request with one line on
stdout: empty, or a `SampleProblem`. It imports no torch, so it starts in a fraction of a second.
"""

import contextlib
import mmap
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.annotations import parse_image_index
from redkiln.predict.pixels import PixelFormat
from worker.process.lifetime import die_with_parent
from worker.trainer.images.decode.sample import SampleProblem, decode_sample
from worker.trainer.images.sources.sources import open_source

BLOCK_ROWS = 256
"""Rows decoded at once; a larger read takes several requests."""


class Assignment(BaseModel):
    """The data set that a child decodes, sent once."""

    source_path: str
    index_path: str
    pixel_format: PixelFormat


class Request(BaseModel):
    """Rows of the set, and the position in the block of the first one."""

    place: int
    rows: list[int]


def map_block(descriptor: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Map the shared block, (BLOCK_ROWS, C, S, S) uint8."""
    mapped = mmap.mmap(descriptor, 0)
    return np.frombuffer(mapped, dtype=np.uint8).reshape(BLOCK_ROWS, *shape)


def main(descriptor: int) -> int:
    """Answer requests until stdin ends."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    assignment = Assignment.model_validate_json(sys.stdin.buffer.readline())
    index = parse_image_index(Path(assignment.index_path).read_bytes())
    samples = index.splits["train"] + index.splits["test"]
    block = map_block(descriptor, assignment.pixel_format.shape)
    source_path = Path(assignment.source_path)
    try:
        source = open_source(source_path)
    except (OSError, ValueError) as error:
        # Report it as the answer to the first request.
        sys.stdin.buffer.readline()
        _answer(SampleProblem(path=source_path.name, reason=str(error), is_gone=True))
        return 0
    with contextlib.closing(source):
        while line := sys.stdin.buffer.readline():
            request = Request.model_validate_json(line)
            problem = None
            for place, row in enumerate(request.rows, start=request.place):
                problem = problem or decode_sample(
                    samples[row], source, block[place], assignment.pixel_format
                )
            _answer(problem)
    return 0


def _answer(problem: SampleProblem | None) -> None:
    text = "" if problem is None else problem.model_dump_json()
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
