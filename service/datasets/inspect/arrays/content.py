"""Reads files of arrays within limits; nothing is ever unpickled."""

import ast
import gzip
import io
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
import numpy.typing as npt

from service.datasets.inspect.arrays.naming import NPY, ArrayFile
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import GIB, Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.source import Source

MAX_ARRAY_BYTES = GIB
"""Maximum size of one unpacked array: it is read as a whole into the process's memory."""
MAX_ARRAYS = 100
"""Maximum number of arrays in an NPZ."""
_MAX_HEADER_BYTES = 10_000
_UBYTE = 8
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Array:
    """An array's header, and its elements as bytes.

    Attributes:
        dtype: NumPy's name of the element type.
        data: Bytes after the header.
    """

    shape: tuple[int, ...]
    dtype: str
    data: memoryview


def read_file(source: Source, entry: Entry, *, limits: Limits) -> bytes:
    """Read a file that may be as large as an array.

    Raises:
        BadImage: The file cannot be read, or is larger.
    """
    return source.read(entry, limits=replace(limits, max_file_bytes=MAX_ARRAY_BYTES))


def list_npz(content: bytes, entry: Entry) -> list[ArrayFile]:
    """List the arrays of an NPZ that is inside an archive.

    Raises:
        BadImage: The file is not a zip.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(NPY)]
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise BadImage("bad_array", f"is not a readable NPZ file: {error}") from None
    if len(names) > MAX_ARRAYS:
        raise BadImage("bad_array", f"contains more than {MAX_ARRAYS} arrays; split it")
    return [ArrayFile(f"{entry.path}/{name}", entry, name) for name in names]


def unpack_inner(content: bytes, name: str) -> bytes:
    """Unpack an array's file from an NPZ.

    Raises:
        BadImage: The file is damaged or too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(name) as file:
            return _take(file, MAX_ARRAY_BYTES)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, KeyError) as error:
        raise BadImage("bad_array", f"is damaged: {error}") from None


def parse_array(content: bytes) -> Array:
    """Parse an IDX or NPY file, gzipped or not.

    Raises:
        BadImage: The file is neither, contains objects, or is truncated.
    """
    if content.startswith(_GZIP):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                content = _take(file, MAX_ARRAY_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            raise BadImage("bad_array", f"cannot be unpacked: {error}") from None
    array = _parse_npy(content) if content.startswith(b"\x93NUMPY") else _parse_idx(content)
    expected = math.prod(array.shape) * np.dtype(array.dtype).itemsize
    if len(array.data) != expected:
        message = (
            f"has {len(array.data)} bytes of data, but shape {array.shape} of {array.dtype} needs "
            f"{expected}; it is truncated or damaged"
        )
        raise BadImage("bad_array", message)
    return array


def as_values(array: Array) -> npt.NDArray[np.generic]:
    """Return the elements of a small array."""
    return np.frombuffer(array.data, dtype=array.dtype).reshape(array.shape)


def _take(file: IO[bytes] | gzip.GzipFile, limit: int) -> bytes:
    content = file.read(limit + 1)
    if len(content) > limit:
        raise BadImage("too_large", f"unpacks to more than {limit} bytes; split it")
    return content


def _parse_idx(content: bytes) -> Array:
    if len(content) < 4 or content[:2] != b"\0\0":
        raise BadImage("bad_array", "is neither an IDX nor an NPY file")
    kind, num_dims = content[2], content[3]
    if kind != _UBYTE:
        message = f"has elements of IDX type {kind:#x}; only bytes (type 0x8) are supported"
        raise BadImage("bad_array", message)
    start = 4 + 4 * num_dims
    if not 1 <= num_dims <= 4 or len(content) < start:
        message = f"has {num_dims} dimensions (1 to 4 are allowed) or a truncated header"
        raise BadImage("bad_array", message)
    shape = struct.unpack(f">{num_dims}I", content[4:start])
    return Array(shape, "uint8", memoryview(content)[start:])


def _parse_npy(content: bytes) -> Array:
    # Parsed here rather than by NumPy, which would trust the header of an array of objects.
    major = content[6] if len(content) > 12 else 0
    width = {1: 2, 2: 4, 3: 4}.get(major)
    if width is None:
        raise BadImage("bad_array", "is an NPY file of an unknown version, or truncated")
    length = int.from_bytes(content[8 : 8 + width], "little")
    start = 8 + width + length
    if length > _MAX_HEADER_BYTES or len(content) < start:
        raise BadImage("bad_array", "has a truncated or oversized header")
    try:
        head = ast.literal_eval(content[8 + width : start].decode("latin1").strip())
        shape = tuple(int(size) for size in head["shape"])
        descr, is_fortran = str(head["descr"]), bool(head["fortran_order"])
        dtype = np.dtype(descr)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise BadImage("bad_array", f"has an unreadable header: {error}") from None
    if dtype.hasobject:
        message = "contains Python objects, which are never loaded; save numbers or text instead"
        raise BadImage("objects_in_array", message)
    if is_fortran and len(shape) > 1:
        message = "is in Fortran order; save np.ascontiguousarray(array) instead"
        raise BadImage("bad_array", message)
    if any(size < 0 for size in shape):
        raise BadImage("bad_array", f"has the invalid shape {shape}")
    return Array(shape, dtype.str, memoryview(content)[start:])
