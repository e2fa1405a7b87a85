"""Unpacks the image arrays (IDX, NPY, NPZ) of a data set into a folder of plain arrays.

Each array becomes one NPY file that every process can map, however it was packed. `arrays.json` in
the folder lists which file holds which array. Nothing is unpickled; each array gets a new header.
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

from redkiln.datasets import ImageFile, ImageIndex
from redkiln.predict.labelled.array_files import read_head
from worker.trainer.images.sources.sources import ARRAYS, BadSampleError, array_key

_GZIP = b"\x1f\x8b"
_CHUNK_BYTES = 4 * 2**20


def is_made_of_arrays(index: ImageIndex) -> bool:
    """Return whether the samples are rows of arrays."""
    return index.splits["train"][0].row is not None


def unpack_arrays(source_path: Path, index: ImageIndex, folder: Path) -> Path:
    """Write the arrays that an index names and return their folder.

    Args:
        source_path: The data set: a zip, a plain tar, or a folder.
        index: Index whose samples have row numbers.
        folder: Folder for the arrays; must not exist yet.

    Raises:
        BadSampleError: an array is missing, has changed, or differs from what was registered.
        OSError: the disk is full, for example.
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
def _open_array(source_path: Path, sample: ImageFile) -> Iterator[IO[bytes]]:
    """Open an array's bytes, unpacked from every archive and compression around them."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_open_member(source_path, sample))
        if sample.array is not None:
            archive = stack.enter_context(zipfile.ZipFile(file))
            file = stack.enter_context(archive.open(sample.array))
        magic = file.read(2)
        file.seek(0)
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if magic == _GZIP else file


@contextlib.contextmanager
def _open_member(source_path: Path, sample: ImageFile) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        try:
            yield _find_member(source_path, sample, stack)
        except (KeyError, FileNotFoundError):
            raise BadSampleError(sample.path, "no longer exists", is_gone=True) from None


def _find_member(source_path: Path, sample: ImageFile, stack: contextlib.ExitStack) -> IO[bytes]:
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


def _write_plain(file: IO[bytes], path: Path, sample: ImageFile) -> None:
    shape = read_head(file)
    with path.open("wb") as out:
        header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        start = out.tell()
        shutil.copyfileobj(file, out, _CHUNK_BYTES)
        found, expected = out.tell() - start, int(np.prod(shape))
    if found != expected:
        reason = f"holds {found} bytes of pixels but {shape} needs {expected}; it is truncated"
        raise BadSampleError(sample.path, reason, is_gone=False)
