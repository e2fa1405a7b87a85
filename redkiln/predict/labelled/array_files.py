"""Arrays of bytes in files: IDX, the format of MNIST, and NPY."""

import gzip
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

_UBYTE = 8


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read the array in a gzipped IDX file.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: the file is damaged.
    """
    try:
        with gzip.open(path, "rb") as packed:
            file = cast("IO[bytes]", packed)
            shape = read_head(file)
            return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error


def read_head(file: IO[bytes]) -> tuple[int, ...]:
    """Read an array's shape and leave the file at its first element.

    Raises:
        ValueError: the file is neither IDX nor NPY, or its elements are not uint8 in C order.
    """
    magic = file.read(4)
    if magic[:2] == b"\0\0" and len(magic) == 4:
        if magic[2] != _UBYTE:
            raise ValueError(f"its elements have type {magic[2]:#x} but must be unsigned bytes")
        sizes = file.read(4 * magic[3])
        return tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"its NPY version {version} is not supported; save it as 1.0 or 2.0")
    shape, is_fortran, dtype = read(file)
    if dtype != np.uint8 or is_fortran:
        raise ValueError(f"its elements are {dtype} but must be uint8 in C order")
    return tuple(shape)
