"""Arrays of images (IDX, NPY, NPZ) of a data set, brought into a folder of plain arrays.

Each becomes one NPY file that every process can map, whatever it was packed in: `arrays.json` in
the folder says which is which. Nothing is unpickled; the array's head is written anew.
"""

import contextlib
import gzip
import hashlib
import json
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import DatasetIndex, Sample
from worker.trainer.images.sources import ARRAYS, BadSampleError, array_key

_GZIP = b"\x1f\x8b"
_UBYTE = 8
_CHUNK_BYTES = 4 * 2**20


def is_made_of_arrays(index: DatasetIndex) -> bool:
    """Whether the samples are rows of arrays."""
    return index.splits["train"][0].row is not None


def unpack_arrays(source_path: Path, index: DatasetIndex, folder: Path) -> Path:
    """Write the arrays that an index names.

    Args:
        source_path: of the data set: a zip, a plain tar, or a folder.
        index: whose samples have rows.
        folder: is made, and given back.

    Raises:
        BadSampleError: an array is gone, has changed, or is not what was registered.
        OSError: the disk is full.
    """
    folder.mkdir()
    samples = (sample for split in index.splits.values() for sample in split)
    names: dict[str, str] = {}
    for sample in {array_key(sample): sample for sample in samples}.values():
        name = f"{len(names)}.npy"
        try:
            with _open_array(source_path, sample) as file:
                _write_plain(file, folder / name, sample)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError) as error:
            if isinstance(error, BadSampleError):
                raise
            raise BadSampleError(sample.path, f"is damaged: {error}", is_gone=False) from error
        names[array_key(sample)] = name
    (folder / ARRAYS).write_text(json.dumps(names))
    return folder


@contextlib.contextmanager
def _open_array(source_path: Path, sample: Sample) -> Iterator[IO[bytes]]:
    """The bytes of an array's own file, unpacked from all that it lies in."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_open_member(source_path, sample))
        if sample.array is not None:
            archive = stack.enter_context(zipfile.ZipFile(file))
            file = stack.enter_context(archive.open(sample.array))
        magic = file.read(2)
        file.seek(0)
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if magic == _GZIP else file


@contextlib.contextmanager
def _open_member(source_path: Path, sample: Sample) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        try:
            yield _find_member(source_path, sample, stack)
        except (KeyError, FileNotFoundError):
            raise BadSampleError(sample.path, "is not there any more", is_gone=True) from None


def _find_member(source_path: Path, sample: Sample, stack: contextlib.ExitStack) -> IO[bytes]:
    if source_path.is_dir():
        file = stack.enter_context((source_path / sample.path).open("rb"))
        if sample.sha256 not in (None, hashlib.file_digest(file, "sha256").hexdigest()):
            raise BadSampleError(sample.path, "changed since it was registered", is_gone=False)
        file.seek(0)
        return file
    if zipfile.is_zipfile(source_path):
        archive = stack.enter_context(zipfile.ZipFile(source_path))
        return stack.enter_context(archive.open(sample.path))
    tar = stack.enter_context(tarfile.TarFile(source_path))
    names = set(tar.getnames())
    path = sample.path if sample.path in names else f"./{sample.path}"
    member = tar.extractfile(path)
    if member is None:
        raise KeyError(path)
    return stack.enter_context(member)


def _write_plain(file: IO[bytes], path: Path, sample: Sample) -> None:
    shape = read_head(file)
    with path.open("wb") as out:
        header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        start = out.tell()
        shutil.copyfileobj(file, out, _CHUNK_BYTES)
        found, expected = out.tell() - start, int(np.prod(shape))
    if found != expected:
        reason = f"holds {found} bytes of pixels where {shape} are {expected}; it is cut off"
        raise BadSampleError(sample.path, reason, is_gone=False)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file.

    Raises:
        OSError: it is not there.
        ValueError: it is damaged.
    """
    try:
        with gzip.open(path, "rb") as packed:
            file = cast("IO[bytes]", packed)
            shape = read_head(file)
            return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error


def read_head(file: IO[bytes]) -> tuple[int, ...]:
    """The shape of an array of bytes; the file is then at its first element.

    Raises:
        ValueError: it is none.
    """
    magic = file.read(4)
    if magic[:2] == b"\0\0" and len(magic) == 4:
        if magic[2] != _UBYTE:
            raise ValueError(f"elements of type {magic[2]:#x}")
        sizes = file.read(4 * magic[3])
        return tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"NPY version {version}")
    shape, is_fortran, dtype = read(file)
    if dtype != np.uint8 or is_fortran:
        raise ValueError(f"elements of {dtype}, not uint8 in C order")
    return tuple(shape)
