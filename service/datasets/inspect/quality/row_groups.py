"""Numbers rows so that equal ones get the same number.

Shapes: N rows.
"""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_NOT_WORDS = re.compile(r"[\W_]+")


def group_rows(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Return a number (N,) int64 that rows with equal values in all columns share.

    Numbers are 64-bit mixtures of the values: for ten million rows, the chance that any two
    different rows share one is below 1 in 100,000.
    """
    mixed = np.zeros(table.num_rows, np.uint64)
    for place, name in enumerate(columns):
        column = table.column(name)
        values = column.cast(pa.float64()).to_numpy().astype(np.float64)
        values = np.where(np.isnan(values), np.inf, values + 0.0)  # -0.0 is 0.0
        mixed = mix(mixed ^ mix(values.view(np.uint64) + np.uint64(place + 1)))
    return mixed.view(np.int64)


def group_texts(texts: Sequence[str]) -> np.ndarray:
    """Return a number (N,) int64 that texts with the same words share.

    Case, spaces and punctuation do not count, unless a text has nothing else.
    """
    return np.array(
        [_digest(_normalise(text).encode("utf-8", "surrogatepass")) for text in texts], np.int64
    )


def digest_rows(data: memoryview, num: int) -> np.ndarray:
    """Return a number (N,) int64 that rows with equal bytes share.

    Args:
        data: The bytes of all rows, which have the same size.
        num: N.
    """
    size = len(data) // max(num, 1)
    digests = [_digest(data[row * size : (row + 1) * size]) for row in range(num)]
    return np.array(digests, np.int64)


def mix(values: np.ndarray) -> np.ndarray:
    """Spread the bits of (N,) uint64. Source: the finaliser of splitmix64 (Steele et al., 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def _normalise(text: str) -> str:
    words = _NOT_WORDS.sub(" ", text.casefold()).strip()
    return words or text


def _digest(data: bytes | memoryview) -> int:
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
