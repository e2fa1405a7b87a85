"""Decodes a share of a data set's rows into the shared array: `... decode_shard SHARD.json`.

Beside SHARD.json it leaves `.done`, which grows by a byte every hundred rows, and, where a sample
is unusable, `.problem`. It imports no torch, so it starts in a fraction of a second.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

from redkiln.datasets import DatasetIndex, Sample
from worker.trainer.images.pixels import PixelFormat, to_pixels
from worker.trainer.images.sources import BadSampleError, Source, open_source
from worker.trainer.lifetime import die_with_parent

ROWS_A_MARK = 100


class Shard(BaseModel):
    """Rows `start` to `stop` of the array at `images_path`, in the order train, test.

    Attributes:
        offset: of row 0 in the file.
    """

    source_path: str
    index_path: str
    images_path: str
    offset: int
    pixel_format: PixelFormat
    start: int
    stop: int


class ShardProblem(BaseModel):
    """The sample that ended a decoding."""

    path: str
    reason: str
    is_gone: bool


def decode_rows(shard: Shard, *, on_row: Callable[[int], None]) -> ShardProblem | None:
    """Decode the rows of a shard into its array.

    `on_row` is called with the number of rows done, every hundred rows and at the end.

    Returns:
        What was wrong with the first unusable sample; None when all went well.
    """
    index = DatasetIndex.model_validate_json(Path(shard.index_path).read_bytes())
    samples = (index.splits["train"] + index.splits["test"])[shard.start : shard.stop]
    try:
        source = open_source(Path(shard.source_path))
    except (OSError, ValueError) as error:
        return ShardProblem(path=Path(shard.source_path).name, reason=str(error), is_gone=True)
    with contextlib.closing(source), Path(shard.images_path).open("r+b", buffering=0) as file:
        file.seek(shard.offset + shard.start * shard.pixel_format.num_bytes)
        return _decode_samples(samples, source, file, shard.pixel_format, on_row)


def main(path: Path) -> int:
    """Decode the shard described in a file; the exit status is 0 unless the code is at fault."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    shard = Shard.model_validate_json(path.read_bytes())
    with path.with_suffix(".done").open("wb", buffering=0) as file:

        def mark(_num_rows: int) -> None:
            file.write(b".")

        problem = decode_rows(shard, on_row=mark)
    if problem is not None:
        path.with_suffix(".problem").write_text(problem.model_dump_json())
    return 0


def _decode_samples(
    samples: list[Sample],
    source: Source,
    file: BinaryIO,
    pixel_format: PixelFormat,
    on_row: Callable[[int], None],
) -> ShardProblem | None:
    # Written block by block: pages of a mapped file would count as this process's memory.
    block = np.empty((ROWS_A_MARK, *pixel_format.shape), dtype=np.uint8)
    for number, sample in enumerate(samples, start=1):
        place = (number - 1) % ROWS_A_MARK
        problem = decode_sample(sample, source, block[place], pixel_format)
        if problem is not None:
            return problem
        if number % ROWS_A_MARK == 0 or number == len(samples):
            file.write(block[: place + 1].data)
            on_row(number)
    return None


def decode_sample(
    sample: Sample, source: Source, planes: NDArray[np.uint8], pixel_format: PixelFormat
) -> ShardProblem | None:
    """Decode one sample into `planes`, (C, S, S).

    Returns:
        What was wrong with it.
    """
    try:
        planes[:] = to_pixels(source.open_image(sample), pixel_format).transpose(2, 0, 1)
    except BadSampleError as error:
        return ShardProblem(path=error.path, reason=error.reason, is_gone=error.is_gone)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        # Pillow raises SyntaxError for some broken PNGs.
        return ShardProblem(path=sample.path, reason=f"{error}", is_gone=False)
    return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
