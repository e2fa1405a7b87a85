"""Samples next to an ONNX file that a script left: inputs and the expected outputs.

They are plain arrays in an `.npz` file. Nothing is unpickled, because that would run the script's
code in the process that checks its files.
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
"""Kinds of arrays. ONNX Runtime returns strings as objects; samples cannot be objects."""


class SamplesError(Exception):
    """The samples cannot be read; the message says which file, and why."""


class MismatchError(Exception):
    """An output differs from the expected one; the message says how."""


def load_samples(model: Path) -> Arrays | None:
    """Load the arrays next to a model, from `<model>.npz` or `samples.npz`.

    Raises:
        SamplesError: The file cannot be read.
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
    """Return an output's largest difference relative to the largest expected value; 0 for texts.

    Raises:
        MismatchError: The arrays cannot be compared number by number, or the texts differ.
    """
    if found.shape != expected.shape:
        raise MismatchError(f"has shape {found.shape}, expected {expected.shape}")
    if found.dtype.kind in TEXTS and expected.dtype.kind in TEXTS:
        return _compare_texts(found, expected)
    if found.dtype.kind not in NUMBERS or expected.dtype.kind not in NUMBERS:
        raise MismatchError(f"has type {found.dtype}, expected {expected.dtype}")
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(found).all():
        raise MismatchError("contains values that are not finite")
    if not np.isfinite(expected).all():
        raise MismatchError("cannot be checked: its expected values are not finite")
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    return float(np.abs(found - expected).max(initial=0.0)) / scale


def describe_error(error: Exception) -> str:
    """Return a library error's message as one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an .npz file, or it is incomplete")
    with np.load(path, allow_pickle=False) as packed:
        return {name: _normalise(name, packed[name]) for name in packed.files}


def _normalise(name: str, array: object) -> NDArray[Any]:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"its entry {name} is not an array")
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    # ONNX Runtime expects numbers in this machine's byte order.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _compare_texts(found: NDArray[Any], expected: NDArray[Any]) -> float:
    others = found.astype(object) != expected.astype(object)
    if others.any():
        first = f"{str(found[others][0])[:100]!r} instead of {str(expected[others][0])[:100]!r}"
        raise MismatchError(
            f"has {others.sum()} of {others.size} texts that differ from the expected: {first}"
        )
    return 0.0
