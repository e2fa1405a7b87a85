"""Finds texts with nearly the same words, and rows whose numbers are equal after rounding.

Shapes: N samples, K hash functions.
"""

import itertools
import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from redkiln.cells.blanks import lack_blanks
from service.datasets.inspect.quality.groups import Groups
from service.datasets.inspect.quality.row_groups import group_rows, mix

MOST_TEXTS = 100_000
"""Texts that are compared, the first ones: this takes about 6 s of CPU for texts of 40 words."""
MOST_CHARACTERS = 2000
"""Characters of a text that are compared."""
ALIKE = 0.8
"""Share of words and pairs of words in common (Jaccard index) from which texts are alike."""
BANDS, ROWS = 8, 4
"""Texts agree in a band of four minima with probability J^4: 41 % each, or 98.5 % in one of eight,
at J = 0.8. Source: Leskovec et al., Mining of Massive Datasets, section 3.4."""
NEIGHBOURS = 8
"""Texts with an equal band that each one is compared with."""
STEPS = 1000
"""Steps of rounding in a standard deviation of a column."""
LEAST_COLUMNS = 3
"""Columns with many different numbers from which rows that agree in all are hardly so by chance."""
_WORD = re.compile(r"[^\W_]+")


def group_near_texts(texts: Sequence[str]) -> np.ndarray:
    """Return a number (N,) int64 that texts with nearly the same words share."""
    groups = Groups(len(texts))
    parts = [_hash_parts(text) for text in texts[:MOST_TEXTS]]
    minima = _find_minima(parts)
    for band in np.split(minima, BANDS, axis=1):
        keys = np.zeros(len(parts), np.uint64)
        for column in band.T:
            keys = mix(keys ^ column)
        order = np.argsort(keys, kind="stable")
        for step in range(1, NEIGHBOURS + 1):
            one, other = order[:-step], order[step:]
            is_equal = keys[one] == keys[other]
            for a, b in zip(one[is_equal].tolist(), other[is_equal].tolist(), strict=True):
                if _are_alike(parts[a], parts[b]):
                    groups.join(a, b)
    return groups.numbers()


def group_near_rows(table: pa.Table, columns: Sequence[str]) -> np.ndarray | None:
    """Return a number (N,) int64 that rows share whose numbers are equal after rounding.

    None if the table has too few columns with many different numbers to tell copies from rows that
    agree by chance.
    """
    rounded: list[tuple[list[pa.Array], list[str]]] = [([], []), ([], [])]
    num_continuous = 0
    for name in columns:
        values = table.column(name).cast(pa.float64()).to_numpy()
        is_continuous = len(np.unique(values)) > min(table.num_rows / 2, STEPS)
        num_continuous += is_continuous
        step = _find_step(values) if is_continuous else 0.0
        for shift, (arrays, names) in zip((0.0, 0.5), rounded, strict=True):
            shown = np.floor(values / step + shift) if step > 0 else values
            arrays.append(pa.array(shown, from_pandas=True))
            names.append(name)
    if num_continuous < LEAST_COLUMNS:
        return None
    groups = Groups(table.num_rows)
    # Numbers next to a border of one rounding are within a step of the other one.
    for arrays, names in rounded:
        for one, other in _pairs(group_rows(pa.table(arrays, names), columns)):
            groups.join(one, other)
    return groups.numbers()


def _find_step(values: np.ndarray) -> float:
    """Return the step of rounding; 0 if the numbers are too large, or too small, to have one."""
    with np.errstate(over="ignore", invalid="ignore"):
        step = float(np.nanstd(values)) / STEPS
        is_usable = step > 0 and np.isfinite(step) and np.isfinite(np.nanmax(abs(values)) / step)
    return step if is_usable else 0.0


def _hash_parts(text: str) -> np.ndarray:
    """Return the hashes of a text's different words and pairs of words, sorted."""
    words = _WORD.findall(text[:MOST_CHARACTERS].casefold())
    if lack_blanks(words):
        words = [char for word in words for char in word]
    pairs = (f"{one} {other}" for one, other in itertools.pairwise(words))
    hashes = {zlib.crc32(part.encode("utf-8", "surrogatepass")) for part in (*words, *pairs)}
    return np.array(sorted(hashes), np.uint64)


def _find_minima(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return (N, K) the smallest value of each hash function over a text's parts (MinHash)."""
    keys = mix(np.arange(1, BANDS * ROWS + 1, dtype=np.uint64))
    minima = np.empty((len(parts), len(keys)), np.uint64)
    for row, hashes in enumerate(parts):
        if len(hashes):
            minima[row] = mix(hashes[:, None] ^ keys).min(axis=0)
        else:  # a text without words is like no other one
            minima[row] = mix(keys ^ np.uint64(row))
    return minima


def _are_alike(one: np.ndarray, other: np.ndarray) -> bool:
    small, large = sorted((len(one), len(other)))
    if not small or small < ALIKE * large:
        return False
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common >= ALIKE * (len(one) + len(other) - common)


def _pairs(numbers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield neighbours of the rows that share a number."""
    order = np.argsort(numbers, kind="stable")
    same = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
    yield from zip(order[same].tolist(), order[same + 1].tolist(), strict=True)
