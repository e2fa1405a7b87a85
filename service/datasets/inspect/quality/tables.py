"""Checks a validated table: copies of rows or texts, names, columns that leak or say nothing.

Shapes: N rows.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from redkiln.tables import LABELS, METADATA_KEY, TARGET, TableIndex, TableOptions, put_own_first
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.quality.classes import check_classes
from service.datasets.inspect.quality.columns import check_columns, check_dropped
from service.datasets.inspect.quality.copies import (
    Samples,
    check_copies,
    check_equal_features,
)
from service.datasets.inspect.quality.far_targets import check_far_targets
from service.datasets.inspect.quality.gaps import find_tells, warn_of_tells
from service.datasets.inspect.quality.near_copies import group_near_rows, group_near_texts
from service.datasets.inspect.quality.row_groups import group_rows, group_texts
from service.datasets.inspect.quality.spellings import check_spellings
from service.datasets.inspect.report import InspectionReport, problem, quote, show

MOST_ROWS = 2_000_000
"""Rows of a table above which copies are not looked for: this takes up to half a minute."""
MOST_BYTES = 1024**3
"""Bytes of a table above which only its classes are checked, because it is read again."""
USUAL_COPIES = 0.5
"""From this share of rows with equal features on, equal rows are usual in a table and say nothing
about its records, as in a table of two categories."""
SHOWN_CHARACTERS = 40
CONTEXT_CHARACTERS = 15
"""Characters that are shown before the first difference of two texts."""


def check_table(
    path: Path,
    report: InspectionReport,
    options: TableOptions,
    *,
    locate: Callable[[int], str],
    number_unused: Callable[[], dict[str, np.ndarray]],
    find_gaps: Callable[[], dict[str, np.ndarray]],
) -> list[DatasetProblem]:
    """Return warnings about a table.

    Args:
        path: Path of its index.
        report: Its report, with the counts of a valid table.
        options: The user's options, which advice on pushing it again repeats.
        locate: Returns the place of a row of the index in the user's file, such as `line 7`.
        number_unused: Returns for each column that is not used a number (N,) int64 that rows with
            the same value share.
        find_gaps: Returns for each column of the file that is used where it is empty, as (N,) bool.
    """
    with pq.ParquetFile(path) as file:
        index = TableIndex.model_validate_json(file.schema_arrow.metadata[METADATA_KEY.encode()])
        counts = report.label_counts or report.counts
        found = check_spellings(index.classes, index.columns)
        if index.classes:
            found += check_classes(counts, are_labels=bool(report.label_counts))
        if _count_bytes(file) > MOST_BYTES:
            size = f"{MOST_BYTES // 2**30} GiB"
            message = f"copies and columns were not checked, because the table is above {size}"
            return [*found, problem("not_checked", message)]
        table = file.read()
    if table.num_rows <= MOST_ROWS:
        found += _check_copies(table, index, locate, number_unused)
    if index.task == "text-classification":
        return found
    tells = []
    if index.classes and LABELS not in table.column_names:
        targets = table.column(TARGET).to_numpy()
        tells = find_tells(find_gaps(), targets, num_classes=len(index.classes))
    if not index.classes:
        values = table.column(TARGET).to_numpy().astype(np.float64)
        found += check_far_targets(values, name=index.target, locate=locate)
    return [
        *found,
        *warn_of_tells(tells, index.classes, options),
        *check_columns(table, index, options, told={tell.name for tell in tells}),
        *check_dropped(report.columns, options),
    ]


def _count_bytes(file: pq.ParquetFile) -> int:
    groups = range(file.metadata.num_row_groups)
    return sum(file.metadata.row_group(place).total_byte_size for place in groups)


def _check_copies(
    table: pa.Table,
    index: TableIndex,
    locate: Callable[[int], str],
    number_unused: Callable[[], dict[str, np.ndarray]],
) -> list[DatasetProblem]:
    is_text = index.task == "text-classification"
    labels = _number_labels(table) if index.classes else None
    rows = np.arange(table.num_rows)
    is_test = rows >= index.num_train
    is_validation = ~is_test & (rows >= index.num_train - index.num_validation)
    own = is_validation if index.num_validation else None
    if not is_text:
        names = [column.name for column in index.columns]
        features = group_rows(table, names)
        different, same = np.unique(features, return_inverse=True)
        if len(different) < (1 - USUAL_COPIES) * table.num_rows:
            return []
        name = _name_row(table, index, locate)
        drawn, label = index.held_out_test, _name_label(table, index)
        origins = {one.derived.column for one in index.columns if one.derived}
        samples = Samples("rows", is_test, labels, name, own, label, is_drawn=drawn)
        near = group_near_rows(table, names)
        rounded = same if near is None else near
        unused = number_unused() if len(np.unique(rounded)) < table.num_rows else {}
        copies = _group_all([same, *unused.values()])
        if near is not None:
            near = _group_all([np.unique(near, return_inverse=True)[1], *unused.values()])
        return [
            *check_copies(samples, copies, features=features),
            *check_equal_features(samples, copies, features, unused=unused, origins=origins),
            *_check_near(samples, copies, near, words="equal, after rounding, to"),
        ]
    (column,) = index.columns
    texts = table.column(column.name).to_pylist()

    def name_both(one: int, other: int) -> tuple[str, str]:
        shown = _show_difference(texts[one], texts[other])
        return f"{locate(one)} {shown[0]}", f"{locate(other)} {shown[1]}"

    label = _name_label(table, index)
    drawn = index.held_out_test
    samples = Samples("texts", is_test, labels, locate, own, label, name_both, is_drawn=drawn)
    same = group_texts(texts)
    found = check_copies(samples, same, words="equal, apart from case, spaces and punctuation, to")
    firsts = np.unique(same, return_index=True)[1]
    near = group_near_texts([texts[row] for row in firsts])
    alike = samples.pick_first(same)
    return [*found, *check_copies(alike, near, words="nearly equal to", code="near_copies")]


def _group_all(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Return a number (N,) int64 that rows share for which all (N,) numbers are the same."""
    names = [str(place) for place in range(len(numbers))]
    return group_rows(pa.table(list(numbers), names), names)


def _check_near(
    samples: Samples, exact: np.ndarray, near: np.ndarray | None, *, words: str
) -> list[DatasetProblem]:
    """Return warnings about samples that are nearly equal; of equal ones, the first is compared."""
    if near is None:
        return []
    firsts = np.unique(exact, return_index=True)[1]
    return check_copies(samples.pick_first(exact), near[firsts], words=words, code="near_copies")


def _number_labels(table: pa.Table) -> np.ndarray:
    """Return a number (N,) int64 that rows with the same class, or the same labels, share."""
    if LABELS not in table.column_names:
        return np.asarray(table.column(TARGET), np.int64)
    return group_texts([str(labels) for labels in table.column(LABELS).to_pylist()])


def _name_label(table: pa.Table, index: TableIndex) -> Callable[[int], str] | None:
    """Return a function that names the class, or the labels, of a row; None without classes."""
    if not index.classes:
        return None
    name = LABELS if LABELS in table.column_names else TARGET

    def describe(row: int) -> str:
        found = table.column(name)[row].as_py()
        labels = found if isinstance(found, list) else [found]
        return ", ".join(show(index.classes[label]) for label in labels) or "no label"

    return describe


def _show_difference(one: str, other: str) -> tuple[str, str]:
    """Return a part of each of two texts: their beginning, or else where they first differ."""
    pairs = zip(one, other, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_late = one != other and common >= SHOWN_CHARACTERS
    begin = common - CONTEXT_CHARACTERS if is_late else 0
    return _quote(one, begin), _quote(other, begin)


def _name_row(
    table: pa.Table, index: TableIndex, locate: Callable[[int], str]
) -> Callable[[int], str]:
    """Return a function that names a row by its place and its first values."""
    shown = put_own_first(index.columns)[:3]

    def name(row: int) -> str:
        values = []
        for column in shown:
            value = table.column(column.name)[row].as_py()
            if column.categories and value is not None:
                value = column.categories[value]
            values.append(f"{show(column.name)}={_quote(value)}")
        return f"{locate(row)} with {', '.join(values)}"

    return name


def _quote(value: object, begin: int = 0) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = "" if value is None else str(value)
    end = begin + SHOWN_CHARACTERS
    before, after = "..." if begin else "", "..." if len(text) > end else ""
    return quote(f"{before}{text[begin:end]}{after}")
