"""Reads cells with several labels, such as `css;java`.

Shapes: N rows, K labels.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.label_file import ONE_CLASS
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote

_SEPARATORS = (";", "|", ",")
LEAST_SETS = 2
"""Least values with several parts from which classes look like sets of labels."""
LEAST_CERTAIN_SETS = 3
"""Least values with several parts from which classes are refused as sets of labels."""


@dataclass(frozen=True)
class LabelSets:
    """The labels of each row.

    Attributes:
        names: (K,) names by label.
        lists: (N,) lists of int32, indexes into `names` in rising order; empty without a label.
    """

    names: list[str]
    lists: pa.ListArray

    @property
    def sizes(self) -> np.ndarray:
        """(N,) labels of each row."""
        return np.asarray(self.lists.value_lengths(), np.int64)

    def take(self, rows: np.ndarray) -> pa.ListArray:
        """Return the lists of some rows, in their order."""
        return self.lists.take(pa.array(rows))

    def count(self, rows: np.ndarray) -> np.ndarray:
        """Return how many of some rows have each label, (K,)."""
        return np.bincount(self.take(rows).flatten(), minlength=len(self.names))

    def find_rarest(self, rows: np.ndarray) -> np.ndarray:
        """Return each row's rarest label among some rows, (N,) int64; -1 without a label.

        Splitting the rows by it gives each label its share of every split, the rare ones first.
        """
        counts, sizes = self.count(rows), self.sizes
        codes = self.lists.flatten().to_numpy()
        rarest = np.full(len(sizes), -1, np.int64)
        starts = (np.cumsum(sizes) - sizes)[sizes > 0]
        if len(starts):
            # The smallest count first, and of equal counts the smallest label.
            keys = counts[codes] * len(self.names) + codes
            rarest[sizes > 0] = np.minimum.reduceat(keys, starts) % len(self.names)
        return rarest


def find_separator(names: Sequence[str]) -> str | None:
    """Return what separates labels in the names of classes, if they look like sets of labels.

    They do if several names have the separator, and all names together have fewer parts than there
    are names, as `css`, `java` and `css;java` do.

    Args:
        names: Different values of a target.
    """
    for separator in _SEPARATORS:
        parts = [{part.strip() for part in name.split(separator)} - {""} for name in names]
        num_sets = sum(len(some) > 1 for some in parts)
        if num_sets >= LEAST_SETS and len(set().union(*parts)) < len(names):
            return separator
    return None


def are_surely_sets(names: Sequence[str], separator: str) -> bool:
    """Return whether the names of classes are most probably sets of labels.

    At least half of the names are combinations. At least half of these have a part that also occurs
    alone, or both at the beginning of a combination and later. In names such as `Smith, John` and
    `Portland, Maine`, each part has its own place. Digits between commas may be one number.

    Args:
        names: Different values of a target, for which `find_separator` returns the separator.
        separator: The separator.
    """
    parts = [list(filter(None, map(str.strip, name.split(separator)))) for name in names]
    sets = [some for some in parts if len(some) > 1]
    first = {some[0] for some in sets}
    later = {part for some in sets for part in some[1:]}
    alone = {some[0] for some in parts if len(some) == 1}
    free = (first & later) | alone
    num_free = sum(not free.isdisjoint(some) for some in sets)
    are_numbers = separator == "," and all(part.isdigit() for part in first | later | alone)
    has_enough = len(sets) >= max(LEAST_CERTAIN_SETS, len(names) / 2)
    return has_enough and 2 * num_free >= len(sets) and not are_numbers


def say_unsplit(each: str, data: str, names: Sequence[str], separator: str) -> str:
    """Return that cells which look like sets of labels are one class each, and what to do.

    Args:
        each: Words for such a cell.
        data: Words for what has to be pushed again.
        names: Names of the classes.
        separator: Mark that seems to separate labels.
    """
    example = next(name for name in names if separator in name.strip(f" {separator}"))
    return (
        f"{each} is one class, {quote(example)} for example; if this is a list of labels, push "
        f"{data} again with labels_separator={shlex.quote(separator)}; if it is one class, with "
        f"labels_separator={ONE_CLASS}"
    )


def split_labels(
    texts: pa.ChunkedArray, *, separator: str, listed: list[str] | None
) -> tuple[LabelSets, np.ndarray]:
    """Split the cells of a column into labels.

    Spaces around labels, empty parts and repeated labels do not count.

    Args:
        texts: (N,) cells, null where missing.
        separator: Separator of the labels.
        listed: Names by label, if the user listed them; otherwise they are sorted.

    Returns:
        The labels, and (N,) bool for rows with a label that is not listed.
    """
    cells = pc.split_pattern(pc.fill_null(texts, ""), separator)
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    parts = pc.utf8_trim_whitespace(cells.flatten())
    rows = pc.list_parent_indices(cells).to_numpy()
    is_label = pc.not_equal(parts, "").to_numpy(zero_copy_only=False)
    parts, rows = parts.filter(pa.array(is_label)), rows[is_label]
    names = listed or sorted(parts.unique().to_pylist())
    codes = pc.fill_null(pc.index_in(parts, value_set=pa.array(names, pa.string())), -1).to_numpy()
    is_unlisted = np.zeros(len(texts), bool)
    is_unlisted[rows[codes < 0]] = True
    pairs = np.unique(rows[codes >= 0].astype(np.int64) * max(len(names), 1) + codes[codes >= 0])
    return _gather(names, pairs, num_rows=len(texts)), is_unlisted


def _gather(names: list[str], pairs: np.ndarray, *, num_rows: int) -> LabelSets:
    """Build lists from (P,) sorted row * K + label."""
    num = max(len(names), 1)
    offsets = np.searchsorted(pairs // num, np.arange(num_rows + 1))
    values = pa.array((pairs % num).astype(np.int32), pa.int32())
    return LabelSets(names, pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values))


def check_separator(sets: LabelSets, *, target: str, separator: str) -> list[DatasetProblem]:
    """Report a column in which no row has two labels: the separator is probably another one."""
    if (sets.sizes > 1).any():
        return []
    message = (
        f"no value of target {quote(target)} has two labels separated by {separator!r}; give the "
        "right separator as labels_separator=CHAR, or remove it if each row has "
        "one class"
    )
    return [problem("no_separator", message)]
