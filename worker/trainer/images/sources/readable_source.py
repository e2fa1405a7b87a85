"""Brings a data set's files into a form that several processes can read at once."""

import gzip
import shutil
from pathlib import Path

from redkiln.datasets import ImageIndex
from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode.sample import SampleProblem
from worker.trainer.images.sources.arrays import is_made_of_arrays, unpack_arrays
from worker.trainer.images.sources.sources import BUILTIN_ARRAY, BadSampleError

UNPACKED = "unpacked"
"""Holds what several processes cannot read at once in place: a gzipped tar, or packed arrays."""

GZIP_MAGIC = b"\x1f\x8b"


def require_source(source_path: Path) -> None:
    """Fail with a clear message if the data set's files are gone.

    Raises:
        TrainingFailed: the files are gone.
    """
    if not source_path.exists():
        message = (
            f"the data set's files ({source_path.name}) no longer exist on the worker; submit the "
            "job again, or register the data set again if it was removed"
        )
        raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message)


def make_readable(path: Path, index: ImageIndex, folder: Path) -> Path:
    """Return the set in a form several processes can read, unpacked into `folder` if needed.

    Raises:
        TrainingFailed: an archive or a packed array is broken.
    """
    path = _plain_archive(path, folder)
    if not is_made_of_arrays(index) or (path / BUILTIN_ARRAY).exists():
        return path
    try:
        return unpack_arrays(path, index, folder / UNPACKED)
    except BadSampleError as error:
        problem = SampleProblem(path=error.path, reason=error.reason, is_gone=error.is_gone)
        raise problem.to_error() from error


def _plain_archive(path: Path, folder: Path) -> Path:
    """Inflate a gzipped tar, so that every child can seek in it."""
    if path.is_dir():
        return path
    with path.open("rb") as file:
        if file.read(2) != GZIP_MAGIC:
            return path
    plain = folder / "plain.tar"
    try:
        with gzip.open(path, "rb") as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file, 4 * 2**20)
    except (gzip.BadGzipFile, EOFError) as error:
        message = f"the data set's archive is broken: {error}; register an intact one"
        raise TrainingFailed(FailureCode.BAD_INPUT, message) from error
    return plain
