"""Where the bytes of a data set come from: a zip, a tar, a folder, or an installed library.

Only files in the index are read, nothing is extracted, and a file that changed since it was
registered is an error. This module and `pixels` import no torch, because decoding runs in children
that must start fast.
"""

import hashlib
import io
import json
import math
import os
import tarfile
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.datasets import IMAGE_FORMATS, ImageFile

Image.MAX_IMAGE_PIXELS = 100_000_000  # as in validation
# Refuse a file that claims an enormous size; the default is only a warning.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)

BUILTIN_ARRAY = "images.npy"
"""In a built-in set's folder: (N, H, W) or (N, H, W, 3) uint8; a sample's path is its row."""
ARRAYS = "arrays.json"
"""In a folder of arrays: maps each `array_key` to its file."""


class BadSampleError(ValueError):
    """A file in the index cannot be used: it is missing, has changed, or is not an image."""

    def __init__(self, path: str, reason: str, *, is_gone: bool) -> None:
        self.path = path
        self.reason = reason
        self.is_gone = is_gone
        super().__init__(f"{path}: {reason}")


class Source(Protocol):
    """A data set's files."""

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Open the image of a sample.

        Raises:
            BadSampleError: the file is missing, has changed, or is not an image.
        """

    def close(self) -> None:
        """Close open files."""


def open_source(path: Path) -> Source:
    """Open the files at `path`: a folder, a built-in set's folder, a zip or a plain tar.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        ValueError: the file is neither a zip nor a tar.
    """
    if (path / ARRAYS).exists():
        return ArraysSource(path)
    if path.is_dir():
        is_builtin = (path / BUILTIN_ARRAY).exists()
        return ArraySource(path / BUILTIN_ARRAY) if is_builtin else FolderSource(path)
    if zipfile.is_zipfile(path):
        return ZipSource(path)
    if tarfile.is_tarfile(path):
        return TarSource(path)
    raise ValueError(f"{path.name} is neither a zip nor a tar archive")


class ZipSource:
    """Members of a zip archive."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Open the image of a member."""
        try:
            content = self._archive.read(sample.path)
        except KeyError:
            raise _gone(sample) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise BadSampleError(sample.path, str(error), is_gone=False) from error
        return _open_bytes(content, sample)

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


class TarSource:
    """Members of an uncompressed tar archive, read at their offsets."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        with tarfile.open(fileobj=self._file, mode="r:") as archive:
            self._places = {m.name: (m.offset_data, m.size) for m in archive if m.isreg()}

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Open the image of a member."""
        place = self._places.get(sample.path) or self._places.get(f"./{sample.path}")
        if place is None:
            raise _gone(sample)
        self._file.seek(place[0])
        return _open_bytes(self._file.read(place[1]), sample)

    def close(self) -> None:
        """Close the archive."""
        self._file.close()


class FolderSource:
    """Files below a folder, checked against the digests in the index."""

    def __init__(self, path: Path) -> None:
        self._root = path

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Open the image of a file."""
        try:
            content = (self._root / sample.path).read_bytes()
        except FileNotFoundError:
            raise _gone(sample) from None
        except OSError as error:
            raise BadSampleError(sample.path, str(error), is_gone=True) from error
        if sample.sha256 not in (None, hashlib.sha256(content).hexdigest()):
            raise BadSampleError(sample.path, "changed since it was registered", is_gone=False)
        return _open_bytes(content, sample)

    def close(self) -> None:
        """Do nothing; nothing is open."""


class ArrayRows:
    """Rows of an NPY file, (N, ...), which several threads may read at once.

    Rows are read, not mapped: pages of a map would count as this process's memory.
    """

    def __init__(self, path: Path) -> None:
        mapped = np.load(path, mmap_mode="r")
        self._num_rows, self._shape = int(mapped.shape[0]), mapped.shape[1:]
        self._dtype, self._offset = mapped.dtype, mapped.offset
        self._row_bytes = math.prod(self._shape) * mapped.itemsize
        self._file = path.open("rb")

    def __len__(self) -> int:
        return self._num_rows

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        start = self._offset + range(self._num_rows)[row] * self._row_bytes
        content = os.pread(self._file.fileno(), self._row_bytes, start)
        return np.frombuffer(content, dtype=self._dtype).reshape(self._shape)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArraySource:
    """Rows of an array of images."""

    def __init__(self, path: Path) -> None:
        self._images = ArrayRows(path)

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Return the image of a row."""
        return Image.fromarray(self._images[int(sample.path)])

    def close(self) -> None:
        """Close the array's file."""
        self._images.close()


class ArraysSource:
    """Rows of the arrays in a folder, grey (N, H, W) or with channels (N, H, W, C)."""

    def __init__(self, path: Path) -> None:
        names = json.loads((path / ARRAYS).read_text())
        self._arrays = {key: ArrayRows(path / name) for key, name in names.items()}

    def open_image(self, sample: ImageFile) -> Image.Image:
        """Return the image of a row."""
        assert sample.row is not None
        array = self._arrays[array_key(sample)]
        if sample.row >= len(array):
            raise BadSampleError(sample.path, f"row {sample.row} does not exist", is_gone=True)
        pixels = array[sample.row]
        return Image.fromarray(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels)

    def close(self) -> None:
        """Close the arrays' files."""
        for array in self._arrays.values():
            array.close()


def array_key(sample: ImageFile) -> str:
    """Return an array's name in a folder of arrays."""
    return json.dumps([sample.path, sample.array])


def _open_bytes(content: bytes, sample: ImageFile) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(content), formats=IMAGE_FORMATS)
    except (
        OSError,
        ValueError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise BadSampleError(sample.path, f"not an image ({error})", is_gone=False) from error
    return image


def _gone(sample: ImageFile) -> BadSampleError:
    return BadSampleError(sample.path, "no longer exists", is_gone=True)
