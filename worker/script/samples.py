"""What a script leaves beside an ONNX file: inputs, and the outputs that it expects for them.

They are an `.npz` of plain arrays. Nothing in it is unpickled, as that would run code of the
script's where its files are checked.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

NAME = "samples.npz"
NUMBERS = "fiub"
TEXTS = "UO"
"""Kinds of arrays. Strings are objects where ONNX Runtime makes them, as no sample can be."""


class SamplesError(Exception):
    """They cannot be read; says which file, and why."""


class MismatchError(Exception):
    """An output is not what was expected; says what it is instead."""


def load_samples(model: Path) -> Arrays | None:
    """The arrays that were left beside a file, as `<model>.npz` or `samples.npz`.

    Raises:
        SamplesError: they cannot be read.
    """
    for path in (model.with_suffix(".npz"), model.parent / NAME):
        if path.is_file():
            try:
                return _read(path)
            except Exception as error:
                words = describe_error(error)
                raise SamplesError(f"{path.name} cannot be read: {words}") from error
    return None


def measure_difference(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference of an output, relative to the largest expected value; 0 for equal texts.

    Raises:
        MismatchError: they cannot be compared number by number, or are other texts.
    """
    if found.shape != expected.shape:
        raise MismatchError(f"has shape {found.shape}, expected {expected.shape}")
    if found.dtype.kind in TEXTS and expected.dtype.kind in TEXTS:
        return _compare_texts(found, expected)
    if found.dtype.kind not in NUMBERS or expected.dtype.kind not in NUMBERS:
        raise MismatchError(f"is of type {found.dtype}, expected {expected.dtype}")
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(found).all():
        raise MismatchError("is not finite")
    if not np.isfinite(expected).all():
        raise MismatchError("is expected not to be finite, which says nothing")
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    return float(np.abs(found - expected).max(initial=0.0)) / scale


def describe_error(error: Exception) -> str:
    """What an error of a library says, in one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no .npz, or was not written to its end")
    with np.load(path, allow_pickle=False) as packed:
        return {name: _normalise(name, packed[name]) for name in packed.files}


def _normalise(name: str, array: object) -> NDArray[Any]:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} in it is no array")
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    # ONNX Runtime takes the bytes of numbers as this machine has them.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _compare_texts(found: NDArray[Any], expected: NDArray[Any]) -> float:
    others = found.astype(object) != expected.astype(object)
    if others.any():
        first = f"{str(found[others][0])[:100]!r} instead of {str(expected[others][0])[:100]!r}"
        raise MismatchError(
            f"has {others.sum()} of {others.size} texts other than expected: {first}"
        )
    return 0.0
